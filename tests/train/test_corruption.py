"""Claim 10."""

import torch

from diffgr2lib.train.corruption import complementary_masks, corrupt
from tests.tiny import ragged_responses


def test_claim_10_mask_and_complement_partition_the_response() -> None:
    generator = torch.Generator().manual_seed(0)
    for L in (1, 5, 8, 13):
        real = ragged_responses(4, L)[1]
        for B in range(1, L + 1):
            for _ in range(5):
                first, second = complementary_masks(real, B, generator).unbind(1)
                assert torch.equal(first ^ second, real) and not (first & second).any()
                for block, eligible in zip(first.split(B, 1), real.split(B, 1), strict=True):
                    assert torch.equal(block.any(1), eligible.any(1))
                    single = eligible.sum(1) == 1
                    assert torch.equal(block[single], eligible[single])


def test_masked_share_is_uniform() -> None:
    real = torch.ones(4000, 16, dtype=torch.bool)
    first = complementary_masks(real, 16, torch.Generator().manual_seed(0))[:, 0]
    counts = first.sum(1).bincount(minlength=17)[1:].float()
    # P(count = m) is 1/17 for each m, and the block that drew nothing gets one
    expected = torch.full((16,), 4000 / 17)
    expected[0] *= 2
    assert ((counts - expected) ** 2 / expected).sum() < 37.7  # chi-square, 15 degrees, p = 0.001


def test_without_pair_only_the_first_mask_is_drawn() -> None:
    real = ragged_responses()[1]
    pair = complementary_masks(real, 4, torch.Generator().manual_seed(5))
    single = complementary_masks(real, 4, torch.Generator().manual_seed(5), pair=False)
    assert single.shape == (3, 1, 8) and torch.equal(single[:, 0], pair[:, 0])


def test_corrupt_replaces_masked_tokens_only() -> None:
    response, real = ragged_responses()
    masks = complementary_masks(real, 4, torch.Generator().manual_seed(0))
    noisy = corrupt(response, masks, 39)
    assert torch.equal(noisy == 39, masks)
    assert torch.equal(noisy[~masks], response[:, None].expand_as(noisy)[~masks])
