"""The retriever: sequential item-item co-occurrence, and the statistics that the prompt shows.

An item is scored by how often it was bought near the user's recent purchases: pairs `distance`
apart count decay^(distance - 1), pairs in reverse order times BACKWARD; purchases of age a (0 for
the last) weigh decay^a; a target's score is divided by popularity^exponent. Only the sequences that
it was fitted on are counted.
"""

import dataclasses
import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from diffgr2lib.data.types import Catalogue
from diffgr2lib.errors import DataError

logger = logging.getLogger(__name__)

BACKWARD = 0.7  # weight of "bought before" against "bought after"
REACH = 16  # longest distance counted
CHUNK = 512  # queries scored at once: their dense scores take CHUNK x items x 4 bytes
TOP = 10  # tuned for the hit rate at this depth
FOLLOW = 1  # an item followed another if it was bought at most this many purchases later
SMOOTH = 5.0  # pseudo-pairs that pull a category lift towards 1
PRIOR = 1e-7  # orders items without any score by popularity, below every real score

Sequences = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Settings:
    """What is tuned. decay: 0 to 1; exponent: of the popularity; window: purchases used."""

    decay: float = 0.8
    exponent: float = 0.3
    window: int = 8


GRID = [
    Settings(decay, exponent, window)
    for decay, window, exponent in itertools.product(
        (0.4, 0.5, 0.6, 0.7, 0.8), (2, 4, 8), (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    )
]  # exponent varies fastest: settings that share decay and window share their scores


def flat_pairs(sequences: Sequences, distance: int) -> tuple[np.ndarray, np.ndarray]:
    """Item indices (id - 1) of all purchase pairs `distance` apart, earlier and later."""
    flat = np.fromiter(itertools.chain.from_iterable(sequences), dtype=np.int64) - 1
    owner = np.repeat(np.arange(len(sequences)), [len(sequence) for sequence in sequences])
    same = owner[:-distance] == owner[distance:]
    return flat[:-distance][same], flat[distance:][same]


def matrix(
    rows: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: tuple[int, int]
) -> sparse.csr_matrix:
    """Sparse float32 [shape], values of equal cells added."""
    return sparse.csr_matrix((values.astype(np.float32), (rows, columns)), shape=shape)


def cooccurrence(sequences: Sequences, items: int, decay: float) -> sparse.csr_matrix:
    """Weighted counts [items, items]: row, a purchase; column, an item bought near it."""
    rows, columns, values = [], [], []
    for distance in range(1, REACH + 1):
        first, second = flat_pairs(sequences, distance)
        weight = np.full(len(first), decay ** (distance - 1))
        rows += [first, second]
        columns += [second, first]
        values += [weight, BACKWARD * weight]
    shape = (items, items)
    return matrix(np.concatenate(rows), np.concatenate(columns), np.concatenate(values), shape)


def popularity(sequences: Sequences, items: int) -> np.ndarray:
    """Purchases [items] of each item, at least 1 (so that it can be divided by)."""
    flat = np.fromiter(itertools.chain.from_iterable(sequences), dtype=np.int64) - 1
    return np.maximum(1, np.bincount(flat, minlength=items))


def prior(counts: np.ndarray) -> np.ndarray:
    """Tie-breaking scores [items] in (0, PRIOR]: by popularity, then by the smaller id."""
    order = np.lexsort((np.arange(len(counts)), -counts))
    scores = np.empty(len(counts), dtype=np.float32)
    scores[order] = PRIOR * (1 - np.arange(len(counts)) / len(counts))
    return scores


def weigh(queries: Sequences, items: int, settings: Settings) -> sparse.csr_matrix:
    """Weights [queries, items] of each query's last `window` purchases, decay^age."""
    recent = [query[-settings.window :] for query in queries]
    lengths = [len(query) for query in recent]
    age = np.concatenate([np.arange(n)[::-1] for n in lengths])
    columns = np.fromiter(itertools.chain.from_iterable(recent), dtype=np.int64) - 1
    rows = np.repeat(np.arange(len(queries)), lengths)
    return matrix(rows, columns, settings.decay**age, (len(queries), items))


def score_chunks(
    queries: Sequences, near: sparse.csr_matrix, settings: Settings
) -> Iterator[tuple[slice, sparse.csr_matrix]]:
    """Scores [n, items] before the popularity exponent, by chunks; 0 for purchased items."""
    items = near.shape[0]
    bought = dataclasses.replace(settings, window=max(map(len, queries)), decay=1.0)
    for start in range(0, len(queries), CHUNK):
        part = queries[start : start + CHUNK]
        scores = weigh(part, items, settings) @ near
        seen = weigh(part, items, bought).sign()
        scores = scores - scores.multiply(seen)
        scores.eliminate_zeros()
        yield slice(start, start + len(part)), scores.tocsr()


@dataclass(frozen=True, slots=True)
class Signals:
    """What a retriever knows of its lists, each [N, K]: item ids in its order, their scores, times
    that the item followed the query's last purchase, lift of its category after the last purchase's
    (1 = as often as by chance), purchases of the item."""

    ids: np.ndarray
    scores: np.ndarray
    follow: np.ndarray
    lift: np.ndarray
    popularity: np.ndarray


class Retriever:
    """Co-occurrence, follow counts, category lifts and popularity of some training sequences."""

    def __init__(self, sequences: Sequences, catalogue: Catalogue, settings: Settings) -> None:
        items = len(catalogue.items)
        self.settings = settings
        self.near = cooccurrence(sequences, items, settings.decay)
        self.counts = popularity(sequences, items)
        pairs = [flat_pairs(sequences, distance) for distance in range(1, FOLLOW + 1)]
        first, second = (np.concatenate(side) for side in zip(*pairs, strict=True))
        self.followed = matrix(first, second, np.ones(len(first)), (items, items))
        names, self.category = np.unique(
            [item.category for item in catalogue.items], return_inverse=True
        )
        self.lift = category_lift(self.category[first], self.category[second], len(names))
        missing = names == ""
        self.lift[missing, :] = self.lift[:, missing] = 0.0

    def rank(self, queries: Sequences, K: int) -> Signals:
        """The K best items not yet purchased; a query is purchased ids, oldest first."""
        items = len(self.counts)
        if items < K + max(map(len, queries)):
            raise DataError(
                f"{items} items are too few for {K} candidates that a user has not bought."
            )
        ids, scores = [], []
        for chunk, dense in self._dense(queries):
            for row, query in enumerate(queries[chunk]):
                dense[row, np.asarray(query) - 1] = -np.inf
            top = np.argpartition(-dense, K, axis=1)[:, :K]
            top.sort(axis=1)  # so that equal scores stand in the order of ids
            values = np.take_along_axis(dense, top, axis=1)
            order = np.argsort(-values, axis=1, kind="stable")
            ids.append(np.take_along_axis(top, order, axis=1) + 1)
            scores.append(np.take_along_axis(values, order, axis=1))
        return self.describe(queries, np.concatenate(ids), np.concatenate(scores))

    def score(self, queries: Sequences, ids: np.ndarray) -> np.ndarray:
        """Scores [N, K] of given items, ids [N, K]; those of `rank` for the items that it names."""
        parts = [
            np.take_along_axis(dense, ids[chunk] - 1, axis=1)
            for chunk, dense in self._dense(queries)
        ]
        return np.concatenate(parts)

    def describe(self, queries: Sequences, ids: np.ndarray, scores: np.ndarray) -> Signals:
        """The lists ids [N, K] with their scores and what is known of each item."""
        found = ids - 1
        last = np.array([query[-1] for query in queries])[:, None] - 1
        rows = np.broadcast_to(last, found.shape)
        follow = sparse.csr_matrix(self.followed[rows, found]).toarray()
        return Signals(
            ids=ids,
            scores=scores,
            follow=follow.astype(np.int64),
            lift=self.lift[self.category[last], self.category[found]],
            popularity=self.counts[found],
        )

    def _dense(self, queries: Sequences) -> Iterator[tuple[slice, np.ndarray]]:
        """Final scores [n, items], by chunks; the prior alone for what was purchased."""
        scale = (self.counts**-self.settings.exponent).astype(np.float32)
        extra = prior(self.counts)
        for chunk, scores in score_chunks(queries, self.near, self.settings):
            yield chunk, scores.toarray() * scale + extra


def category_lift(first: np.ndarray, second: np.ndarray, categories: int) -> np.ndarray:
    """Lift [categories, categories]: pairs seen over pairs expected by chance, pulled towards 1."""
    pairs = np.zeros((categories, categories))
    np.add.at(pairs, (first, second), 1)
    chance = pairs.sum(1, keepdims=True) * pairs.sum(0, keepdims=True) / max(1, pairs.sum())
    return (pairs + SMOOTH) / (chance + SMOOTH)


def tune(queries: Sequences, targets: np.ndarray, sequences: Sequences, items: int) -> Settings:
    """The settings of `GRID` with most targets (ids [N]) in the top 10; ties: the earlier ones.

    `sequences` must hold neither the targets nor anything later.
    """
    counts = popularity(sequences, items)
    extra = prior(counts)
    best, most = GRID[0], -1
    for decay, by_decay in itertools.groupby(GRID, key=lambda s: s.decay):
        near = cooccurrence(sequences, items, decay)
        for _, same in itertools.groupby(by_decay, key=lambda s: s.window):
            group = list(same)
            hits = np.zeros(len(group), dtype=np.int64)
            for chunk, scores in score_chunks(queries, near, group[0]):
                row = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
                own = targets[chunk] - 1
                is_own = scores.indices == own[row]
                for k, settings in enumerate(group):
                    scale = (counts**-settings.exponent).astype(np.float32)
                    scaled = scores.data * scale[scores.indices] + extra[scores.indices]
                    bar = np.full(scores.shape[0], np.inf)  # a target without a score is a miss
                    bar[row[is_own]] = scaled[is_own]
                    above = np.bincount(row, weights=scaled > bar[row], minlength=len(bar))
                    hits[k] += int(((above < TOP) & (bar < np.inf)).sum())
            if hits.max() > most:
                best, most = group[int(hits.argmax())], int(hits.max())
    logger.info("retriever tuned on validation: %s, hit rate at 10 %.4f", best, most / len(queries))
    return best
