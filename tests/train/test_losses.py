"""Claim 12 (cross-entropy): closed forms, and no NaN where nothing is supervised."""

import math

import torch

from diffgr2lib.train.losses import weighted_cross_entropy


def test_claim_12_closed_form():
    logits = torch.tensor([[0.0, math.log(3.0)], [math.log(4.0), 0.0]])
    loss = weighted_cross_entropy(logits, torch.tensor([1, 1]), torch.tensor([2.0, 1.0]))
    expected = -(2 * math.log(0.75) + math.log(0.2))
    assert abs(float(loss) - expected) < 1e-6


def test_claim_12_no_nan_for_an_empty_response_or_a_minus_infinite_logit():
    nothing = weighted_cross_entropy(torch.zeros(0, 3), torch.zeros(0).long(), torch.zeros(0))
    assert float(nothing) == 0.0
    logits = torch.tensor([[float("-inf"), 0.0], [1.0, 2.0]], requires_grad=True)
    loss = weighted_cross_entropy(logits, torch.tensor([0, 1]), torch.tensor([0.0, 1.0]))
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(logits.grad).all()
