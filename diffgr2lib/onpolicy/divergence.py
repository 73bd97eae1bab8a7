"""Divergences between a teacher's and a student's next-token law, exact over the vocabulary."""

from typing import Literal

import torch
from torch import Tensor

from diffgr2lib.errors import ModelError

Divergence = Literal["forward", "reverse", "jsd"]


def divergence(kind: str, teacher: Tensor, student: Tensor, top_k: int = 0) -> Tensor:
    """Divergence in nats at each of M positions, from logits [M, V]; gradients reach both.

    `forward` is KL(teacher || student), `reverse` KL(student || teacher), `jsd` the Jensen-Shannon
    divergence, at most log 2. A forbidden token (-inf on both sides) adds exactly 0. top_k > 0
    (forward only): the teacher's k likeliest tokens and the rest lumped together, which can only
    lower the divergence.
    """
    p, q = teacher.float().log_softmax(-1), student.float().log_softmax(-1)
    if top_k:
        if kind != "forward":
            raise ModelError(f"top_k is for the forward divergence, not {kind!r}; set it to 0.")
        p, q = _lumped(p, q, top_k)
    if kind == "forward":
        return _kl(p, q)
    if kind == "reverse":
        return _kl(q, p)
    if kind == "jsd":
        middle = torch.logaddexp(_finite(p), _finite(q)) - torch.log(torch.tensor(2.0))
        return 0.5 * (_kl(p, middle) + _kl(q, middle))
    raise ModelError(f"The divergence {kind!r} is unknown; choose forward, reverse or jsd.")


def _finite(law: Tensor) -> Tensor:
    """Log-probabilities with -inf replaced by a number whose exponential is 0."""
    return law.clamp_min(-1e4)


def _kl(p: Tensor, q: Tensor) -> Tensor:
    """KL from log-probabilities [M, V]: 0 where p is 0, large but finite where only q is."""
    nothing = p == float("-inf")
    gap = (_finite(p) - _finite(q)).masked_fill(nothing, 0.0)
    return (p.exp() * gap).sum(-1)


def _lumped(p: Tensor, q: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k likeliest tokens under p, and one more for all others: two laws [M, k + 1]."""
    k = min(k, p.shape[-1] - 1)
    best = p.topk(k, dim=-1).indices
    other = torch.zeros_like(p, dtype=torch.bool).scatter(-1, best, True)
    laws = []
    for law in (p, q):
        rest = _finite(law).masked_fill(other, -1e4).logsumexp(-1, keepdim=True)
        laws.append(torch.cat([law.gather(-1, best), rest], dim=-1))
    return laws[0], laws[1]
