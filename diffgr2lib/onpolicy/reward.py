"""The re-ranking reward and group-normalised advantages (GR2, arXiv 2602.07774; DAPO)."""

import numpy as np

ALPHA = 0.2


def reward(rank_pre: int, rank_new: int | None, candidates: int, alpha: float = ALPHA) -> float:
    """Reward of one response, from the true item's 1-based rank before and after.

    rank_new None: the response is invalid or over-long, -1. Else the gain in rank over the number
    of candidates, plus alpha where the item rose, or was first and stays first: an unconditional
    format reward would teach the model to copy the retriever's order.
    """
    if rank_new is None:
        return -1.0
    gain = (rank_pre - rank_new) / candidates
    earned = gain > 0 or rank_pre == rank_new == 1
    return gain + alpha if earned else gain


def advantages(rewards: np.ndarray) -> np.ndarray:
    """(R - mean) / std within each group, [groups, G]; all 0 in a group without variance."""
    spread = rewards.std(axis=1, keepdims=True)
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    return np.where(spread > 1e-8, centred / np.maximum(spread, 1e-8), 0.0)
