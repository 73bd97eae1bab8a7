"""The laws of masking: what is masked, how often, and what it weighs."""

import pytest
import torch

from diffgr2lib.ablate.balance import in_sight, label_places, over_full
from diffgr2lib.ablate.masking import Masking, draw_masks, grown, probabilities
from diffgr2lib.errors import ConfigError
from diffgr2lib.train.corruption import complementary_masks

N, B, BLOCKS = 600, 4, 5
L = B * BLOCKS


def eligible_tokens() -> torch.Tensor:
    """Rows that end at different places, at block ends too."""
    return torch.arange(L) < torch.arange(N)[:, None] % L + 1


def drawn(seed: int = 0, **changes):
    eligible = eligible_tokens()
    answer = eligible & (torch.arange(L) >= 8)
    generator = torch.Generator().manual_seed(seed)
    masks, weights = draw_masks(eligible, answer, B, Masking(**changes), generator)
    return eligible, answer, masks, weights


def test_the_default_is_the_complementary_pair_of_the_kit():
    eligible, _, masks, weights = drawn()
    kit = complementary_masks(eligible, B, torch.Generator().manual_seed(0))
    assert torch.equal(masks, kit) and torch.equal(weights, kit.float())


@pytest.mark.parametrize("law", ["uniform", "clipped", "later"])
def test_a_pair_masks_each_eligible_token_once_under_every_law(law):
    eligible, _, masks, _ = drawn(law=law, whole_answer=0.5)
    assert torch.equal(masks.sum(1), eligible.long())


@pytest.mark.parametrize("law", ["uniform", "clipped", "later"])
def test_masks_drawn_apart_weigh_a_token_one_in_expectation(law):
    eligible, _, masks, weights = drawn(pair=False, law=law)
    assert not weights[~masks].any() and bool((weights[masks] > 0).all())
    mean = weights.sum(1)[eligible].mean()
    assert 0.8 < float(mean) < 1.1  # p held above 1 / B takes a little off
    assert not torch.equal(masks[:, 1], eligible & ~masks[:, 0])


def test_the_laws_differ_in_where_and_how_much_they_mask():
    t = torch.rand(4000, 1, 1, generator=torch.Generator().manual_seed(1))
    uniform, clipped, later = (
        probabilities(law, t, B)[:, 0] for law in ("uniform", "clipped", "later")
    )
    assert float(clipped.min()) >= 0.3 and float(clipped.max()) <= 0.8
    means = later.mean(0)
    assert bool((means[1:] > means[:-1]).all())
    assert torch.allclose(uniform.mean(0), torch.full((B,), 0.5), atol=0.02)


def test_the_whole_answer_is_masked_in_its_share_of_rows():
    _, answer, masks, _ = drawn(whole_answer=0.5)
    long_enough = answer.sum(1) >= 8
    whole = (masks[:, 0] | ~answer).all(1)[long_enough]
    assert 0.4 < float(whole.float().mean()) < 0.6


def test_block_size_grows_in_powers_of_two_and_ends_at_its_own():
    sizes = [grown(8, step, 40) for step in range(40)]
    assert sizes == sorted(sizes) and set(sizes) == {1, 2, 4, 8}
    assert grown(6, 39, 40) == 6 and grown(1, 0, 5) == 1 and grown(8, 0, 1) == 1


def test_a_wrong_masking_is_refused():
    with pytest.raises(ConfigError, match="choose one of"):
        Masking(law="linear")
    with pytest.raises(ConfigError, match="whole_answer"):
        Masking(whole_answer=1.5)


LABELS = torch.tensor([5, 6, 7])


def permutation_case():
    """One answer B A C in blocks of 2: positions 0..3, label slots 0, 1 and 3."""
    response = torch.tensor([[6, 5, 9, 7]])
    answer = torch.ones(1, 4, dtype=torch.bool)
    masks = torch.tensor([[[True, False, True, False], [False, True, False, True]]])
    return label_places(response, answer, LABELS), masks


def test_in_sight_counts_earlier_blocks_and_the_open_part_of_its_own():
    placed, masks = permutation_case()
    seen = in_sight(placed, masks, 2)
    assert seen[0, 0].tolist() == [[1, 0, 0], [1, 1, 1]]
    assert seen[0, 1].tolist() == [[0, 1, 0], [1, 1, 0]]


def test_the_penalty_is_zero_for_a_permutation_and_counts_a_label_asked_twice():
    placed, masks = permutation_case()
    right = placed[:, None].expand(1, 2, 4, 3)
    assert float(over_full(right, placed, masks, 2)) == 0
    twice = right.clone()
    twice[0, 0, 0] = torch.tensor([1.0, 0.0, 0.0])  # asks for A, which stands beside it
    assert float(over_full(twice, placed, masks, 2)) == pytest.approx(1.0)
    half = right.clone()
    half[0, 1, 3] = torch.tensor([0.5, 0.0, 0.5])  # A stands in the block before
    assert float(over_full(half, placed, masks, 2)) == pytest.approx(0.25)


def test_the_penalty_pulls_down_what_is_asked_twice():
    placed, masks = permutation_case()
    logits = torch.zeros(1, 2, 4, 3, requires_grad=True)
    over_full(logits.softmax(-1), placed, masks, 2).backward()
    at_slot = logits.grad[0, 0, 0]
    assert float(at_slot[0]) > 0  # A is in sight: less of it lowers the penalty
    assert not logits.grad[0, 0, 3].any()  # not masked in this copy
