"""Divergences: closed forms, forbidden tokens, the lumped top-k."""

import math

import pytest
import torch

from diffgr2lib.errors import ModelError
from diffgr2lib.onpolicy.divergence import divergence

P, Q = torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[0.2, 0.3, 0.5]])


def by_hand(p, q):
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


@pytest.mark.parametrize("kind", ["forward", "reverse", "jsd"])
def test_claim_12_divergences_in_closed_form(kind):
    p, q = P[0].tolist(), Q[0].tolist()
    m = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    want = {
        "forward": by_hand(p, q),
        "reverse": by_hand(q, p),
        "jsd": (by_hand(p, m) + by_hand(q, m)) / 2,
    }[kind]
    found = divergence(kind, P.log() + 3.0, Q.log() - 1.0)  # a constant changes nothing
    assert math.isclose(float(found), want, rel_tol=1e-5)
    assert abs(float(divergence(kind, P.log(), P.log()))) < 1e-6


@pytest.mark.parametrize("kind", ["forward", "reverse", "jsd"])
def test_claim_12_a_forbidden_token_gives_no_nan(kind):
    teacher = torch.tensor([[1.0, 0.0, -1.0, float("-inf")], [float("-inf"), 2.0, 0.0, 1.0]])
    student = teacher.flip(0).clone()
    student[:, 3] = float("-inf")
    teacher[:, 3] = float("-inf")
    student.requires_grad_()
    found = divergence(kind, teacher, student)
    found.sum().backward()
    assert torch.isfinite(found).all() and torch.isfinite(student.grad).all()
    narrow = divergence(kind, teacher[:, :3], student[:, :3].detach())
    assert torch.allclose(found.detach(), narrow, atol=1e-5)


def test_jsd_of_disjoint_laws_is_log_2():
    inf = float("-inf")
    found = divergence("jsd", torch.tensor([[0.0, inf]]), torch.tensor([[inf, 0.0]]))
    assert math.isclose(float(found), math.log(2), rel_tol=1e-5)


def test_top_k_is_a_lower_bound_and_exact_at_the_whole_vocabulary():
    generator = torch.Generator().manual_seed(0)
    teacher, student = torch.randn(2, 20, 12, generator=generator)
    whole = divergence("forward", teacher, student)
    bounds = [divergence("forward", teacher, student, top_k=k) for k in (2, 6, 11)]
    for low, high in zip(bounds, [*bounds[1:], whole], strict=True):
        assert (low <= high + 1e-5).all()
    assert torch.allclose(bounds[-1], whole, atol=1e-5)
    with pytest.raises(ModelError, match="forward"):
        divergence("reverse", teacher, student, top_k=3)
    with pytest.raises(ModelError, match="unknown"):
        divergence("both", teacher, student)
