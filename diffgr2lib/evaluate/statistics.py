"""Intervals by a paired bootstrap: users resampled jointly for all systems, nested in seeds."""

from dataclasses import dataclass

import numpy as np

LEVEL = 0.95
DRAWS = 2000
CHUNK = 2**22  # users drawn at once: bounds the memory, not the result


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % percentile interval, the number of users n and of seeds."""

    value: float
    low: float
    high: float
    n: int
    seeds: int

    def __str__(self) -> str:
        """``0.379 [0.361, 0.398]``."""
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def resampled_means(values: np.ndarray, draws: int = DRAWS, seed: int = 0) -> np.ndarray:
    """Bootstrap means [draws, M] of values [M, S, N]: M quantities, S seeds, N users.

    Each draw takes N users with replacement, and S seeds with replacement, the same ones for every
    quantity, so differences of the columns are paired. One seed alone is kept as it is; few seeds
    (fewer than about 8) make the interval somewhat too narrow, as every bootstrap of few things.
    """
    M, S, N = values.shape
    by_user, by_seed = (np.random.default_rng([seed, part]) for part in range(2))
    flat = values.reshape(M * S, N).T  # [N, M * S]
    rows = max(1, CHUNK // N)
    means = [
        _counts(by_user, N, min(rows, draws - first)) @ flat / N for first in range(0, draws, rows)
    ]
    grid = np.concatenate(means).reshape(draws, M, S)
    return np.einsum("dms,ds->dm", grid, _counts(by_seed, S, draws) / S)


def _counts(rng: np.random.Generator, n: int, draws: int) -> np.ndarray:
    """How often each of n things is drawn when n are drawn with replacement: float [draws, n]."""
    picks = rng.integers(n, size=(draws, n)) + n * np.arange(draws)[:, None]
    return np.bincount(picks.ravel(), minlength=draws * n).reshape(draws, n).astype(float)


def _stack(*systems: np.ndarray) -> np.ndarray:
    """Per-user values [N] or [S, N] of several systems as one [M, S, N]; one seed is repeated."""
    grids = [np.atleast_2d(np.asarray(one, dtype=float)) for one in systems]
    S, N = max(grid.shape[0] for grid in grids), grids[0].shape[-1]
    if N == 0:
        raise ValueError("There are no users to estimate from: the values are empty.")
    for grid in grids:
        if grid.ndim != 2 or grid.shape[0] not in (1, S) or grid.shape[1] != N:
            shapes = ", ".join(str(g.shape) for g in grids)
            raise ValueError(f"Paired systems need the same users and seeds; got shapes {shapes}.")
    return np.stack([np.broadcast_to(grid, (S, N)) for grid in grids])


def _estimate(value: float, draws: np.ndarray, shape: tuple[int, ...]) -> Estimate:
    tail = (1 - LEVEL) / 2
    known = draws[np.isfinite(draws)]
    # draws without a value could lie anywhere: beyond a tail's worth of them there is no interval
    bounded = np.isfinite(value) and len(known) > (1 - tail) * len(draws)
    low, high = np.quantile(known, [tail, 1 - tail]) if bounded else (np.nan, np.nan)
    return Estimate(float(value), float(low), float(high), n=shape[2], seeds=shape[1])


def mean_estimate(values: np.ndarray, draws: int = DRAWS, seed: int = 0) -> Estimate:
    """Mean of per-user values [N] or [S, N]."""
    grid = _stack(values)
    return _estimate(grid.mean(), resampled_means(grid, draws, seed)[:, 0], grid.shape)


def difference(a: np.ndarray, b: np.ndarray, draws: int = DRAWS, seed: int = 0) -> Estimate:
    """Mean of a - b, paired by user (each [N] or [S, N])."""
    grid = _stack(a, b)
    means = resampled_means(grid, draws, seed)
    return _estimate(grid[0].mean() - grid[1].mean(), means[:, 0] - means[:, 1], grid.shape)


def share_recovered(
    floor: np.ndarray, ar: np.ndarray, system: np.ndarray, draws: int = DRAWS, seed: int = 0
) -> Estimate:
    """(system - floor) / (ar - floor) of means, paired by user; nan where AR gains nothing.

    Draws in which AR gains nothing have no ratio. Up to 2.5 % of them are left out; with more,
    AR's gain itself is not beyond doubt, and the interval is nan.
    """
    grid = _stack(floor, ar, system)
    means = resampled_means(grid, draws, seed)
    gain = means[:, 1] - means[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(gain > 0, (means[:, 2] - means[:, 0]) / gain, np.nan)
    base, top, value = grid.mean((1, 2))
    ratio = (value - base) / (top - base) if top > base else float("nan")
    return _estimate(ratio, ratios, grid.shape)


def p_value(a: np.ndarray, b: np.ndarray, draws: int = 5 * DRAWS, seed: int = 0) -> float:
    """Two-sided p of "a and b have one mean", by the same paired bootstrap as `difference`.

    Twice the smaller share of draws on either side of 0, each side counted once more than drawn, so
    that it is never 0: at most 1, at least 2 / (draws + 1).
    """
    means = resampled_means(_stack(a, b), draws, seed)
    apart = means[:, 0] - means[:, 1]
    sides = [(np.sum(side) + 1) / (draws + 1) for side in (apart <= 0, apart >= 0)]
    return float(min(1.0, 2 * min(sides)))


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's adjusted p-values [m]: at level alpha they hold the family-wise error at alpha."""
    p = np.asarray(p, dtype=float)
    order = np.argsort(p, kind="stable")
    stepped = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(stepped))
    return adjusted


def detectable(a: np.ndarray, b: np.ndarray) -> float:
    """The smallest paired difference that these users find 4 times in 5, two-sided at 5 %.

    From the spread of the users' own differences (seeds averaged). Users needed for a difference d:
    n times (detectable / d) squared.
    """
    first, second = _stack(a, b).mean(axis=1)
    return float((1.959964 + 0.841621) * (first - second).std(ddof=1) / np.sqrt(len(first)))
