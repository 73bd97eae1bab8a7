"""The scorecard: a small table of integer points over the evidence, and the traces that it writes.

A trace states a theme (the pattern in the history that it follows), adds up each candidate's points
and moves the best to the front. Rejection sampling keeps a theme that helps, as GR2 keeps a trace.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from diffgr2lib.data.evidence import EVIDENCE, EVIDENCE_LEVELS, evidence, one_hot
from diffgr2lib.data.types import Example
from diffgr2lib.errors import DataError

THEMES = ("balanced", "brand", "category", "follow")
DOUBLED = {
    "balanced": (),
    "brand": ("brand_count",),
    "category": ("category_count",),
    "follow": ("follow", "complement"),
}
MAX_POINTS = 63
PROMOTED = 3  # how many of the best a trace moves to the front; the others keep their order


@dataclass(frozen=True)
class Scorecard:
    """Integer points per evidence level; every column's smallest is 0.

    points: column -> one integer a level. A theme doubles the points of its own columns.
    """

    points: Mapping[str, tuple[int, ...]]

    def totals(self, table: np.ndarray, theme: str = "balanced") -> np.ndarray:
        """Points [K] of candidates with evidence [K, F] under a theme, at most MAX_POINTS."""
        total = np.zeros(len(table), dtype=np.int64)
        for column, name in enumerate(EVIDENCE):
            gain = np.array(self.points[name])[table[:, column]]
            total += gain * (2 if name in DOUBLED[theme] else 1)
        return np.minimum(total, MAX_POINTS)

    def to_json(self) -> dict[str, Any]:
        """Plain lists."""
        return {name: list(values) for name, values in self.points.items()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls({name: tuple(values) for name, values in data.items()})


@dataclass(frozen=True, slots=True)
class Trace:
    """What a rendered trace needs beside its example; order lists candidate indices, best first."""

    theme: str
    points: tuple[int, ...]
    order: tuple[int, ...]


def order_by(points: Sequence[float] | np.ndarray) -> tuple[int, ...]:
    """Indices by descending points, ties in the retriever's order."""
    return tuple(int(k) for k in np.argsort(-np.asarray(points, dtype=float), kind="stable"))


def best_first(points: Sequence[float] | np.ndarray) -> tuple[int, ...]:
    """The `PROMOTED` indices of most points, best first, ties in the retriever's order."""
    return order_by(points)[:PROMOTED]


def promote(points: Sequence[float] | np.ndarray) -> tuple[int, ...]:
    """All indices: the best by points first, then the others in the retriever's order."""
    best = best_first(points)
    return (*best, *(k for k in range(len(points)) if k not in best))


def fit_weights(examples: Sequence[Example], ridge: float = 1.0) -> np.ndarray:
    """Conditional logistic regression: the true candidate among its list, weights [sum of levels].

    Maximises the sum of log softmax (over K candidates), less ridge / 2 times the squared norm.
    """
    if not examples:
        raise DataError("The scorecard needs training lists, and there are none; raise users.")
    X = np.stack([one_hot(evidence(example)) for example in examples])  # [N, K, D]
    y = np.array([example.target for example in examples])
    if (y < 0).any():
        raise DataError("The scorecard needs lists that hold their true item.")
    chosen = X[np.arange(len(y)), y]  # [N, D]

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        scores = X @ w
        log_p = scores - logsumexp(scores, axis=1, keepdims=True)
        expected = np.einsum("nk,nkd->d", np.exp(log_p), X)
        value = -log_p[np.arange(len(y)), y].sum() + 0.5 * ridge * w @ w
        return float(value), expected - chosen.sum(0) + ridge * w

    return minimize(loss, np.zeros(X.shape[2]), jac=True, method="L-BFGS-B").x


def round_points(weights: np.ndarray, scale: float) -> Scorecard:
    """Weights times scale, rounded, each column shifted so that its smallest level is 0."""
    points, start = {}, 0
    for name, levels in EVIDENCE_LEVELS.items():
        column = np.rint(scale * weights[start : start + levels]).astype(int)
        points[name] = tuple(int(value) for value in column - column.min())
        start += levels
    return Scorecard(points)


def fit(examples: Sequence[Example], scale: float = 4.0) -> Scorecard:
    """Fit, scale and round the card on training lists (each must hold its true item)."""
    return round_points(fit_weights(examples), scale)


def trace(card: Scorecard, example: Example, theme: str = "balanced") -> Trace:
    """The trace that the card writes under one theme."""
    points = card.totals(evidence(example), theme)
    return Trace(theme, tuple(int(p) for p in points), promote(points))


def rejection_sample(
    card: Scorecard, example: Example, rng: np.random.Generator, variants: int = 4
) -> Trace | None:
    """The best of `variants` seeded themes ("balanced" always among them), if it helps.

    Best: highest rank of the true item, then "balanced", then the earlier draw. It is kept when it
    puts the true item higher than the retriever did, or keeps it first; else None (after GR2).
    """
    if example.target < 0:
        raise DataError(f"User {example.user}: the list does not hold the true item.")
    others = [THEMES[1:][i] for i in rng.permutation(len(THEMES) - 1)]
    drawn = [trace(card, example, theme) for theme in (THEMES[0], *others[: variants - 1])]
    best = min(drawn, key=lambda made: made.order.index(example.target))
    rank = best.order.index(example.target)
    return best if rank < example.target or rank == example.target == 0 else None
