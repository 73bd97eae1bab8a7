"""Compute is counted as it is spent; the points of the scaling picture are what they say."""

import pytest
import torch

from diffgr2lib.ablate.compute import counted
from diffgr2lib.ablate.scaling import RUNGS, points
from diffgr2lib.decode.block import decode_blocks
from diffgr2lib.presets import PRESETS
from tests.tiny import make_tiny, ragged_prompts, settings


def test_a_pass_counts_its_columns_and_one_with_gradients_three_times():
    policy = make_tiny(4, "causal")
    ids = torch.zeros(3, 7, dtype=torch.long)
    places, mask = torch.arange(7).expand(3, -1), torch.zeros(3, 1, 7, 7)
    with counted() as columns, torch.no_grad():
        policy.forward(ids, places, mask)
    assert columns.spent == 21
    with counted() as columns:
        policy.forward(ids, places, mask)
    assert columns.spent == 63
    policy.forward(ids, places, mask)
    assert columns.spent == 63  # counting ended with the block


def test_rollouts_and_a_second_model_are_counted_too():
    prompt, mask = ragged_prompts(2)
    with counted() as columns:
        decode_blocks(make_tiny(4, "block"), prompt, mask, settings(max_new_tokens=8))
        first = columns.spent
        decode_blocks(make_tiny(4, "block", seed=1), prompt, mask, settings(max_new_tokens=8))
    assert first > prompt.numel() and columns.spent > first


@pytest.mark.parametrize("name", ["smoke", "toy"])
def test_points_vary_one_axis_and_end_in_the_preset_itself(name):
    preset = PRESETS[name]
    found = points(preset, 1600)
    for axis in ("model", "traces"):
        line = [point for point in found if point.axis == axis]
        shares = [point.share for point in line]
        assert shares == sorted(shares) and shares[-1] == 1 and line[-1].preset == preset
        assert len({str(point.preset) for point in line}) == len(line)
        for point in line[:-1]:
            same = point.preset.model == preset.model
            assert same == (axis == "traces") and point.preset.mid == preset.mid
            rows = {getattr(point.preset, stage).rows for stage in RUNGS}
            assert rows == {0 if axis == "model" else round(1600 * point.share)}
