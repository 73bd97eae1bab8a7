"""The enumerable world: both laws sum to one, agree where they must, and differ where RL works."""

import pytest
import torch

from diffgr2lib.ablate.meanfield import (
    ITEMS,
    bias_table,
    canvas_law,
    enumerable_policy,
    exact_law,
    mean_field,
    mean_field_law,
)
from diffgr2lib.decode.block import decode_blocks
from tests.tiny import make_tiny, ragged_prompts, seeded, settings


@pytest.fixture(scope="module")
def policy():
    return enumerable_policy()


@pytest.mark.parametrize("tau", [1.0, 0.6, 0.35, 0.0])
@pytest.mark.parametrize("fallback", ["best", "leftmost"])
def test_the_exact_law_sums_to_one(policy, tau, fallback):
    assert sum(exact_law(policy, ITEMS, tau, fallback).values()) == pytest.approx(1, abs=1e-6)


def test_mean_field_is_the_product_of_the_masked_canvas(policy):
    law = mean_field_law(policy, ITEMS)
    masked = canvas_law(policy, ITEMS, (policy.mask_token_id,) * 3)[0].double().softmax(-1)
    for block, chance in law.items():
        product = float(torch.stack([masked[n, token] for n, token in enumerate(block)]).prod())
        assert chance == pytest.approx(product, rel=1e-6)


def test_replay_learns_orders_that_mean_field_cannot_tell_from_repeats(policy):
    table = bias_table(policy).set_index("tau")
    assert table.loc[1.0, "valid"] > 0.9 and table.loc[1.0, "valid_mean_field"] < 0.35
    assert table.loc[1.0, "bias"] < -1
    assert table.loc[0.0, "bias"] == pytest.approx(0, abs=1e-9)
    assert table.loc[0.0, "distance"] == pytest.approx(0, abs=1e-9)


def test_mean_field_of_samples_equals_replay_where_a_block_takes_one_step():
    policy = make_tiny(4, "block")
    prompt, mask = ragged_prompts(3)
    made = decode_blocks(
        policy, prompt, mask, settings(temperature=1.0, tau=-1.0, max_new_tokens=8), seeded(3)
    ).trajectories
    with torch.no_grad():
        cheap = mean_field(policy, made)
    for n, one in enumerate(made):
        recorded = torch.tensor(one.log_probability)
        assert torch.allclose(cheap[n, : len(recorded)], recorded, atol=1e-5)
