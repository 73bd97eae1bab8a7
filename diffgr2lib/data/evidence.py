"""Evidence about a candidate, computed from what the prompt shows and from nothing else."""

from collections.abc import Sequence

import numpy as np

from diffgr2lib.data.types import Example, Item

MATCH_CAP = 3  # counts of matching purchases are capped here

EVIDENCE_LEVELS = {
    "rank": 10,
    "score": 6,
    "follow": 4,
    "complement": 4,
    "popularity": 4,
    "category_count": MATCH_CAP + 1,
    "brand_count": MATCH_CAP + 1,
}
EVIDENCE = tuple(EVIDENCE_LEVELS)


def brand_count(history: Sequence[Item], item: Item) -> int:
    """Shown purchases of the item's brand, 0 to 3; a missing brand matches nothing."""
    return min(
        MATCH_CAP, sum(item.brand != "" and bought.brand == item.brand for bought in history)
    )


def category_count(history: Sequence[Item], item: Item) -> int:
    """Shown purchases of the item's category, 0 to 3; a missing category matches nothing."""
    same = (item.category != "" and bought.category == item.category for bought in history)
    return min(MATCH_CAP, sum(same))


def evidence(example: Example) -> np.ndarray:
    """Integer evidence [K, F], columns as in `EVIDENCE`, levels from 0; ranks end at 9."""
    rows = [
        (
            min(rank, EVIDENCE_LEVELS["rank"] - 1),
            candidate.score,
            candidate.follow,
            candidate.complement,
            candidate.popularity,
            category_count(example.history, candidate.item),
            brand_count(example.history, candidate.item),
        )
        for rank, candidate in enumerate(example.candidates)
    ]
    return np.array(rows, dtype=np.int64)


def one_hot(table: np.ndarray) -> np.ndarray:
    """Float [.., sum of levels] from integer evidence [.., F]: one indicator per level."""
    parts = [
        np.eye(levels)[table[..., column]] for column, levels in enumerate(EVIDENCE_LEVELS.values())
    ]
    return np.concatenate(parts, axis=-1)
