"""The clock agrees with what the decoders counted."""

import pytest

from diffgr2lib.decode.ar import decode_ar
from diffgr2lib.decode.block import decode_blocks
from diffgr2lib.report.clock import block_passes, block_tpf, read_clock, status
from tests.tiny import NEVER, ragged_prompts, settings
from tests.viewer.samples import trajectory


@pytest.mark.parametrize("end", [1, NEVER])
@pytest.mark.parametrize("fused", [True, False])
def test_passes_end_at_the_decoders_count(make_policy, fused, end):
    policy = make_policy(4, end=end)
    made = decode_blocks(policy, *ragged_prompts(), settings(tau=0.5, fused=fused)).trajectories
    for one in made:
        clock = read_clock(one)
        gaps = {b - a for a, b in zip(clock.passes, clock.passes[1:], strict=False)}
        assert clock.passes[0] == 1 and clock.passes[-1] == one.nfe
        assert gaps <= ({1} if fused else {1, 2})
        assert sum(block_passes(clock)) == one.nfe


def test_an_ar_trajectory_takes_one_pass_a_token(make_policy):
    for one in decode_ar(make_policy(1), *ragged_prompts(), settings()).trajectories:
        clock = read_clock(one)
        assert clock.steps == one.length and clock.passes == tuple(range(one.length + 1))
        assert clock.step == tuple(range(1, one.length + 1))


def test_steps_follow_blocks_and_the_counts_are_words():
    one = trajectory([2] * 7 + [0], B=4, most=1)
    clock = read_clock(one)
    assert clock.last == (4, 8) and sorted(clock.step[:4]) == [1, 2, 3, 4]
    assert status(one, clock, 0) == "step 0 of 8, block 1 of 2, 4 masked, NFE 1"
    assert status(one, clock, 5) == "step 5 of 8, block 2 of 2, 3 masked, NFE 6"
    assert clock.at(6) == 5 and clock.at(0) == 0 and clock.at(99) == 8


def test_tpf_counts_tokens_up_to_the_end_only():
    one = trajectory([2] * 4 + [2, 0], B=4, spill=[3, 3], most=4, seed=2)
    rates, passes = block_tpf(one), block_passes(read_clock(one))
    assert rates == [4 / passes[0], 2 / passes[1]]
