"""The full form: a checkpoint with words of its own learns semantic ids, and walks the ladder."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from diffgr2lib.artifacts import Store
from diffgr2lib.config import StageTrain
from diffgr2lib.presets import PRESETS
from diffgr2lib.stages import Stages
from diffgr2lib.train.align import AlignmentRows
from diffgr2lib.train.loop import make_optimizers

CHAT = (
    "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """A token a byte: it reads any text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: n for n, token in enumerate(["<end>", "<pad>", *alphabet])}
    made = Tokenizer(models.BPE(vocabulary, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", pad_token="<pad>")
    fast.chat_template = CHAT
    return fast


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer = byte_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=4096,
        tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def stages(checkpoint, tmp_path_factory) -> Stages:
    base = PRESETS["smollm2-smoke"]
    names = ("mid", "sft", "no_trace", "ar", "cft", "cft_more", "opd", "rl")
    short = {
        name: dataclasses.replace(getattr(base, name), steps=1, batch=1, eval_every=1)
        for name in names
    }
    preset = dataclasses.replace(
        base, **short,
        model=dataclasses.replace(base.model, checkpoint=str(checkpoint)),
        decode=dataclasses.replace(base.decode, max_new_tokens=24),
        evaluate=dataclasses.replace(base.evaluate, probe=1),
    )  # fmt: skip
    return Stages(preset, Store(tmp_path_factory.mktemp("store")))


def test_alignment_rows_ask_for_the_name_or_for_the_text(stages):
    policy = stages._start()
    tokenizer, catalogue = policy.tokenizer, stages.world.catalogue
    rows = AlignmentRows(tokenizer, stages.grammar, catalogue)
    rng = np.random.default_rng(0)
    seen = set()
    for n in range(20):
        row = rows.draw(rng, str(n))
        prompt, answer = tokenizer.decode(row.prompt), tokenizer.decode(row.response)
        item = catalogue.item(int(row.key.split()[1]))
        sid = stages.grammar.sid_text(item.sid)
        assert answer.endswith("<end>") and len(row.weights) == len(row.response)
        assert prompt.startswith("[user] ") and prompt.endswith("[assistant] ")
        named = answer.startswith("<|sid_begin|>")
        seen.add(named)
        text = answer if not named else prompt
        assert item.title in text and (sid in prompt) != named
    assert seen == {True, False}


@pytest.mark.parametrize("stage", ["opd", "rl"])
def test_the_full_form_walks_the_ladder(stages, stage):
    artifact = stages.trained(stage)
    assert artifact.stage == stage
    found = stages.evaluation(stage, stages.preset.decode, limit=2)
    assert len(found.users) == 2 and all(nfe > 0 for nfe in found.nfe)
    assert stages.policy(stage).tokenizer.convert_tokens_to_ids("<s_a_1>") >= 258


def test_adamw_for_the_hidden_matrices_where_asked(stages):
    policy = stages._start()
    kinds = [
        [type(one).__name__ for one in make_optimizers(policy, StageTrain(1, optimizer=name))]
        for name in ("muon", "adamw")
    ]
    assert kinds == [["Muon", "AdamW"], ["AdamW", "AdamW"]]
