"""`remask-once`: only the rows asked for change, from their block on, and the passes are counted."""

import pytest
import torch

from diffgr2lib.decode import decode_again, decode_blocks
from diffgr2lib.model.masks import CONTEXTS, Context
from tests.tiny import NEVER, MakePolicy, ragged_prompts, settings


@pytest.mark.parametrize("context", CONTEXTS)
def test_remask_keeps_valid_rows_and_earlier_blocks(
    make_policy: MakePolicy, context: Context
) -> None:
    policy = make_policy(4, context, torch.float64, end=NEVER)
    prompts, config = ragged_prompts(6), settings(tau=0.0)
    first = decode_blocks(policy, *prompts, config)
    blocks = [None, 2, 0, None, 2, 5]
    out = decode_again(policy, *prompts, config, first, blocks)
    changed = 0
    for n, block in enumerate(blocks):
        if block is None:
            assert out.tokens[n] == first.tokens[n] and out.nfe[n] == first.nfe[n]
            assert out.trajectories[n] == first.trajectories[n]
            continue
        assert out.tokens[n][: block * 4] == first.tokens[n][: block * 4]
        # one pass over prompt and kept blocks, then a pass a token
        assert out.nfe[n] == first.nfe[n] + 1 + 24 - block * 4
        old, new = first.trajectories[n], out.trajectories[n]
        assert new.log_probability[: block * 4] == old.log_probability[: block * 4]
        assert sorted(new.reveal_step[-4:]) == [0, 1, 2, 3] and new.nfe == out.nfe[n]
        changed += out.tokens[n] != first.tokens[n]
    assert changed


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("fused", [True, False])
def test_remask_from_any_block_continues_as_decoding_does(
    make_policy: MakePolicy, context: Context, fused: bool
) -> None:
    """Decoded one token a step, an answer masked from any block on comes back the same."""
    policy = make_policy(4, context, torch.float64, end=7)
    prompts, config = ragged_prompts(8), settings(tau=2.0, fused=fused)
    first = decode_blocks(policy, *prompts, config)
    for block in range(6):
        blocks = [block if len(row) > block * 4 else None for row in first.tokens]
        assert decode_again(policy, *prompts, config, first, blocks).tokens == first.tokens
