"""One denoising step as pure functions: propose a token per position, then choose what to commit.

"Diffusion-GR2" (arXiv 2607.01170), section 3: commit what is sure enough, else the single best.
Where nothing is sure enough, `fallback` may name the leftmost masked position instead (ours): the
token that a left-to-right law is about, so that an unsure one never stands before those it needs.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from diffgr2lib.errors import ModelError

Rule = Literal["threshold", "fixed-k", "entropy"]
Fallback = Literal["best", "leftmost"]
ALMOST_ONE = 1.0 - 1e-12  # keeps an inverse-CDF draw inside the law's support, in double precision


@dataclass(frozen=True, slots=True)
class Proposal:
    """Per position [N, B]: the token, the plain top-1 confidence, the token's log-probability."""

    token: Tensor
    confidence: Tensor
    log_probability: Tensor


def propose(
    logits: Tensor, temperature: float, uniform: Tensor | None, allowed: Tensor | None = None
) -> Proposal:
    """Pick a token at every position from logits [N, B, V] (forbidden ids already at -inf).

    Temperature 0 takes the best token; above 0 it is drawn by inverse CDF from uniform [N, B] in
    [0, 1). One uniform per position serves all steps exactly: the commit decision never looks
    at the drawn token, so a position's number is used once. confidence is always the plain softmax,
    before temperature: tempering it would flood the threshold. allowed (bool [N, B, V]) narrows
    the choice; confidence is then the plain probability of the best allowed token.
    """
    plain = logits if logits.dtype == torch.float64 else logits.float()
    total = plain.logsumexp(-1)  # [N, B]
    chosen = plain if allowed is None else plain.masked_fill(~allowed, float("-inf"))
    top, token = chosen.max(-1)
    confidence = (top - total).clamp_max(0).exp()
    if temperature == 0:
        law_total = total if allowed is None else chosen.logsumexp(-1)
        return Proposal(token, confidence, top - law_total)
    if uniform is None:
        raise ModelError("Sampling at a temperature above 0 needs one generator per row.")
    law = (chosen.double() / temperature).log_softmax(-1)  # [N, B, V]
    cumulative = law.exp().cumsum(-1)
    draw = uniform.clamp_max(ALMOST_ONE)[..., None] * cumulative[..., -1:]
    token = torch.searchsorted(cumulative, draw, right=True)  # [N, B, 1]
    return Proposal(token[..., 0], confidence, law.gather(-1, token)[..., 0].to(plain.dtype))


def certainty(logits: Tensor) -> Tensor:
    """exp(-entropy) of the plain softmax, [N, B] in (0, 1]: the score of the `entropy` rule.

    It equals 1/m for a uniform choice among m tokens, so tau keeps its meaning.
    """
    law = (logits if logits.dtype == torch.float64 else logits.float()).log_softmax(-1)
    return torch.special.entr(law.exp()).sum(-1).neg().exp()


def commit_threshold(
    score: Tensor, masked: Tensor, tau: float, fallback: Fallback = "best"
) -> Tensor:
    """Every masked position scoring strictly above tau, else the one of `fallback`: bool [N, B].

    So tau >= 1 commits one a step and tau <= 0 all. Ties for the best go to the leftmost.
    """
    above = masked & (score > tau)
    leftmost = masked & (masked.cumsum(-1) == 1)
    one = leftmost if fallback == "leftmost" else commit_fixed_k(score, masked, 1)
    return torch.where(above.any(-1, keepdim=True), above, one)


def commit_fixed_k(score: Tensor, masked: Tensor, k: int) -> Tensor:
    """The k best-scoring masked positions (all of them where fewer are left): bool [N, B]."""
    hidden = score.masked_fill(~masked, -1.0)
    best = (
        hidden.argmax(-1, keepdim=True) if k == 1 else hidden.topk(min(k, score.shape[-1])).indices
    )
    return torch.zeros_like(masked).scatter_(-1, best, True) & masked


def choose(
    rule: Rule,
    logits: Tensor,
    confidence: Tensor,
    masked: Tensor,
    tau: float,
    k: int,
    fallback: Fallback = "best",
) -> Tensor:
    """Apply the named commit rule: bool [N, B], at least one True in each row that has a mask."""
    if rule == "threshold":
        return commit_threshold(confidence, masked, tau, fallback)
    if rule == "fixed-k":
        return commit_fixed_k(confidence, masked, k)
    if rule == "entropy":
        return commit_threshold(certainty(logits), masked, tau, fallback)
    raise ModelError(f"Commit rule {rule!r} is unknown; choose threshold, fixed-k or entropy.")
