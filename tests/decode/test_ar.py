"""The AR loop against transformers, and against block decoding at B = 1."""

import pytest
import torch

from diffgr2lib.decode import decode_ar, decode_blocks
from tests.decode.test_block import generate
from tests.tiny import MakePolicy, checkpoint_layers, ragged_prompts, seeded, settings


def test_claim_14_ar_loop_equals_generate(make_policy: MakePolicy) -> None:
    prompt, mask = ragged_prompts(8)
    for seed in range(3):
        policy = make_policy(4, dtype=torch.float64, seed=seed, end=7)
        out = decode_ar(policy, prompt, mask, settings(max_new_tokens=20))
        assert out.tokens == generate(policy, prompt, mask, 20)
        assert out.nfe == list(map(len, out.tokens)) and out.tpf == 1.0


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_ar_loop_equals_block_decoding_at_block_size_one(
    make_policy: MakePolicy, temperature: float
) -> None:
    policy = make_policy(1, dtype=torch.float64, end=7)
    config, prompts = settings(temperature=temperature), ragged_prompts(8)
    ar = decode_ar(policy, *prompts, config, seeded(8))
    blocks = decode_blocks(policy, *prompts, config, seeded(8))
    assert ar.tokens == blocks.tokens and ar.nfe == blocks.nfe
    for one, other in zip(ar.trajectories, blocks.trajectories, strict=True):
        assert one.reveal_step == other.reveal_step and one.prompt == other.prompt
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)


def test_training_mode_and_checkpointing_do_not_disturb_decoding(make_policy: MakePolicy) -> None:
    policy = make_policy(4)
    expected = decode_ar(policy, *ragged_prompts(), settings()).tokens
    checkpoint_layers(policy)
    policy.model.train()
    assert decode_ar(policy, *ragged_prompts(), settings()).tokens == expected
    assert policy.model.training
