"""Claim 19 and the commit rules."""

import pytest
import torch

from diffgr2lib.decode.commit import (
    certainty,
    choose,
    commit_fixed_k,
    commit_threshold,
    propose,
)
from diffgr2lib.errors import ModelError

SCORE = torch.tensor([[0.95, 0.2, 0.99, 0.9], [0.1, 0.3, 0.2, 0.3]])
ALL = torch.ones(2, 4, dtype=torch.bool)


def test_claim_19_confidence_is_read_from_the_plain_softmax() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(200, 4, 40, generator=generator)
    uniform = torch.rand(200, 4, generator=generator, dtype=torch.float64)
    for temperature in (0.1, 1.0):
        made = propose(logits, temperature, uniform)
        torch.testing.assert_close(made.confidence, logits.softmax(-1).max(-1).values)
        assert (made.confidence > 0.9).float().mean() == 0
    flooded = propose(logits / 0.1, 1.0, uniform).confidence  # what tempering it would do
    assert (flooded > 0.9).float().mean() > 0.3


def test_threshold_is_strict_and_falls_back_to_the_single_best() -> None:
    commit = commit_threshold(SCORE, ALL, 0.9)
    assert commit.tolist() == [[True, False, True, False], [False, True, False, False]]
    masked = torch.tensor([[True, True, False, True], [True, False, True, False]])
    commit = commit_threshold(SCORE, masked, 0.97)
    assert commit.tolist() == [[True, False, False, False], [False, False, True, False]]
    assert not commit_threshold(SCORE, ~ALL, 0.5).any()


def test_the_leftmost_fallback_only_acts_where_nothing_is_sure() -> None:
    masked = torch.tensor([[True, True, False, True], [False, True, True, True]])
    commit = commit_threshold(SCORE, masked, 0.97, "leftmost")
    assert commit.tolist() == [[True, False, False, False], [False, True, False, False]]
    sure = commit_threshold(SCORE, ALL, 0.15, "leftmost")
    assert torch.equal(sure, commit_threshold(SCORE, ALL, 0.15))
    assert not commit_threshold(SCORE, ~ALL, 0.5, "leftmost").any()
    logits = torch.randn(20, 4, 9, generator=torch.Generator().manual_seed(0))
    masked = torch.ones(20, 4, dtype=torch.bool)
    for rule in ("threshold", "entropy"):
        commit = choose(rule, logits, logits.softmax(-1).amax(-1), masked, 1.0, 1, "leftmost")
        assert torch.equal(commit.nonzero()[:, 1], torch.zeros(20, dtype=torch.long))


def test_confidence_of_one_is_not_above_tau_one() -> None:
    logits = torch.zeros(1, 4, 6)
    logits[..., 2] = 1e4
    confidence = propose(logits, 0.0, None).confidence
    assert (confidence == 1).all()
    assert commit_threshold(confidence, ALL[:1], 1.0).sum() == 1


def test_fixed_k_takes_the_best_masked() -> None:
    assert commit_fixed_k(SCORE, ALL, 2).tolist()[0] == [True, False, True, False]
    few = torch.tensor([[False, True, False, False], [True, True, True, False]])
    assert torch.equal(commit_fixed_k(SCORE, few, 3), few)
    assert commit_fixed_k(SCORE, ALL, 9).all()


def test_entropy_rule_reads_the_effective_number_of_choices() -> None:
    logits = torch.full((1, 3, 8), float("-inf"))
    for position, ways in enumerate((1, 2, 5)):
        logits[0, position, :ways] = 0.0
    torch.testing.assert_close(certainty(logits)[0], torch.tensor([1.0, 0.5, 0.2]))
    masked = torch.ones(1, 3, dtype=torch.bool)
    made = choose("entropy", logits, torch.zeros(1, 3), masked, 0.4, 1)
    assert made.tolist() == [[True, True, False]]
    with pytest.raises(ModelError, match="fixed-k"):
        choose("all", logits, torch.zeros(1, 3), masked, 0.4, 1)  # type: ignore[arg-type]


def test_sampling_follows_the_tempered_law_and_never_leaves_its_support() -> None:
    logits = torch.tensor([float("-inf"), 0.0, 1.0, float("-inf"), 2.0, float("-inf")])
    n = 20000
    uniform = torch.linspace(0, 1, n, dtype=torch.float64)[:, None]  # 0 and 1 included
    made = propose(logits.expand(n, 1, 6), 0.5, uniform)
    shares = made.token.flatten().bincount(minlength=6) / n
    law = (logits / 0.5).softmax(-1)
    torch.testing.assert_close(shares, law, atol=2e-4, rtol=0)
    torch.testing.assert_close(made.log_probability, law.log()[made.token])


def test_allowed_tokens_narrow_the_choice_but_not_the_confidence() -> None:
    logits = torch.tensor([[[3.0, 1.0, 0.0]]])
    allowed = torch.tensor([[[False, True, True]]])
    made = propose(logits, 0.0, None, allowed)
    assert made.token.item() == 1
    torch.testing.assert_close(made.confidence[0, 0], logits.softmax(-1)[0, 0, 1])
    torch.testing.assert_close(made.log_probability[0, 0], logits[0, 0, 1:].log_softmax(-1)[0])
