"""Ranking metrics with one relevant item, per user, from its 1-based rank (any shape of array).

An invalid answer has the rank that the retriever gave (the fallback order): it scores as the floor.
"""

import numpy as np


def recall(ranks: np.ndarray, k: int) -> np.ndarray:
    """1 where the true item is among the first k, else 0."""
    return (np.asarray(ranks) <= k).astype(float)


def ndcg(ranks: np.ndarray, k: int) -> np.ndarray:
    """1 / log2(1 + rank) within the first k, else 0 (one relevant item: the ideal gain is 1)."""
    ranks = np.asarray(ranks, dtype=float)
    return np.where(ranks <= k, 1.0 / np.log2(1.0 + ranks), 0.0)


def mrr(ranks: np.ndarray) -> np.ndarray:
    """1 / rank."""
    return 1.0 / np.asarray(ranks, dtype=float)
