"""Policies: built, converted tensor by tensor, saved, loaded, and grown from a checkpoint."""

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen3Config

from diffgr2lib.errors import ModelError
from diffgr2lib.model import Scorer, build_policy, convert, load, load_checkpoint, save
from diffgr2lib.model.masks import additive
from diffgr2lib.model.policy import Policy
from tests.tiny import MakePolicy


def make_tokenizer(**special: str) -> PreTrainedTokenizerFast:
    words = ["<pad>", "<end>", "<mask>", "<unk>", *"abcdefgh"]
    vocabulary = {word: number for number, word in enumerate(words)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>", **special)


def whole_tokenizer() -> PreTrainedTokenizerFast:
    return make_tokenizer(pad_token="<pad>", eos_token="<end>", mask_token="<mask>")


def causal_inputs(n: int = 2, width: int = 6) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    ids = torch.randint(3, 12, (n, width), generator=torch.Generator().manual_seed(0))
    seen = torch.ones(width, width, dtype=torch.bool).tril().expand(n, -1, -1)
    return ids, torch.arange(width).expand(n, -1), additive(seen, torch.float32)


def test_build_policy_is_seeded_and_leaves_the_global_state_alone() -> None:
    torch.manual_seed(123)
    expected = torch.rand(3)
    torch.manual_seed(123)
    one, two, other = (build_policy(whole_tokenizer(), 16, 1, 2, 32, 64, s) for s in (0, 0, 1))
    assert torch.equal(torch.rand(3), expected)
    assert (one.mask_token_id, one.eos_token_id, one.pad_token_id) == (2, 1, 0)
    head, table = one.model.get_output_embeddings(), one.model.get_input_embeddings()
    assert head.weight is table.weight and len(table.weight) == 12
    assert torch.equal(table.weight, two.model.get_input_embeddings().weight)
    assert not torch.equal(table.weight, other.model.get_input_embeddings().weight)
    assert one.dtype == torch.float32 and one.device.type == "cpu"


def test_conversion_copies_every_tensor(make_policy: MakePolicy) -> None:
    teacher = make_policy(1, "causal")
    student = convert(teacher, 8, "block")
    assert (student.block_size, student.context) == (8, "block")
    old, new = teacher.model.state_dict(), student.model.state_dict()
    assert old.keys() == new.keys()
    for name in old:
        assert torch.equal(old[name], new[name])
        assert old[name].data_ptr() != new[name].data_ptr()


def test_saved_policy_loads_with_every_tensor_and_the_tokenizer(tmp_path: Path) -> None:
    policy = convert(build_policy(whole_tokenizer(), 16, 2, 2, 32, 64, 3), 4, "block")
    save(policy, tmp_path)
    assert (tmp_path / "model.safetensors").exists() and (tmp_path / "tokenizer.json").exists()
    assert json.loads((tmp_path / "diffusion_config.json").read_text())["mask_token_id"] == 2
    again = load(tmp_path)
    for name in ("block_size", "context", "mask_token_id", "eos_token_id", "pad_token_id"):
        assert getattr(again, name) == getattr(policy, name)
    assert again.tokenizer is not None
    assert again.tokenizer.encode("c a h") == whole_tokenizer().encode("c a h")
    for name, weight in policy.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name])
    inputs = causal_inputs()
    assert torch.equal(policy.forward(*inputs), again.forward(*inputs))


def test_foreign_and_damaged_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="diffusion_config.json"):
        load(tmp_path)
    with pytest.raises(ModelError, match="No causal LM"):
        load_checkpoint(str(tmp_path), [])
    (tmp_path / "diffusion_config.json").write_text('{"block_size": 4}')
    with pytest.raises(ModelError, match="exactly"):
        load(tmp_path)


@pytest.mark.parametrize("tied", [True, False])
def test_any_checkpoint_gains_sid_and_mask_tokens(tmp_path: Path, tied: bool) -> None:
    config = LlamaConfig(
        vocab_size=12,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
    )
    model = LlamaForCausalLM(config)
    model.save_pretrained(tmp_path)
    make_tokenizer(eos_token="<end>").save_pretrained(tmp_path)
    policy = load_checkpoint(str(tmp_path), ["<s_a_0>", "<s_a_1>"], 4, "block")
    assert policy.tokenizer is not None and len(policy.tokenizer) == 15
    assert policy.tokenizer.encode("a <s_a_1> <|mask|>")[1:] == [13, 14]
    assert policy.mask_token_id == 14 and policy.pad_token_id == policy.eos_token_id == 1
    old, new = model.get_input_embeddings().weight, policy.model.get_input_embeddings().weight
    assert torch.equal(new[:12], old)
    torch.testing.assert_close(new[14], old.mean(0))
    assert not torch.equal(new[12], new[13])
    head = policy.model.get_output_embeddings().weight
    assert len(head) == 15 and (head is new) == tied
    assert policy.forward(*causal_inputs()).shape == (2, 6, 15)
    save(policy, tmp_path / "again")
    assert load(tmp_path / "again").mask_token_id == 14


def test_logits_come_only_at_the_asked_columns(make_policy: MakePolicy) -> None:
    policy, inputs = make_policy(), causal_inputs()
    whole = policy.forward(*inputs)
    own = torch.tensor([[0, 5, 2], [3, 3, 1]])
    picked = torch.stack([whole[n, own[n]] for n in range(2)])
    chosen = torch.rand(2, 6, generator=torch.Generator().manual_seed(0)) > 0.5
    for columns, expected in (
        (slice(1, 4), whole[:, 1:4]),
        (torch.tensor([4, 0]), whole[:, [4, 0]]),
        (own, picked),
        (chosen, whole[chosen]),
    ):
        torch.testing.assert_close(policy.forward(*inputs, columns=columns), expected)
    torch.testing.assert_close(Scorer(policy.model)(*inputs, own), picked)


def test_what_would_be_silently_wrong_is_refused(make_policy: MakePolicy) -> None:
    model = make_policy().model
    with pytest.raises(ModelError, match="token of its own"):
        Policy(model, None, 4, "block", 1, 1, 0)
    with pytest.raises(ModelError, match="block_size is 0"):
        Policy(model, None, 0, "block", 39, 1, 0)
    with pytest.raises(ModelError, match="names no mask"):
        build_policy(make_tokenizer(eos_token="<end>", pad_token="<pad>"), 16, 1, 2, 32, 64, 0)
    with pytest.raises(ModelError, match="multiple of heads"):
        build_policy(whole_tokenizer(), 16, 1, 3, 32, 64, 0)
    model.config.layer_types = ["sliding_attention", "full_attention"]
    with pytest.raises(ModelError, match="sliding"):
        Policy(model, None, 4, "block", 39, 1, 0)
    model.config = Qwen3Config(attn_implementation="sdpa", logit_scale=0.5)
    with pytest.raises(ModelError, match="logit_scale"):
        Policy(model, None, 4, "block", 39, 1, 0)
