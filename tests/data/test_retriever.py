import numpy as np
import pytest

from diffgr2lib.data import retriever as module
from diffgr2lib.data.retriever import (
    BACKWARD,
    Retriever,
    Settings,
    category_lift,
    cooccurrence,
    tune,
)
from diffgr2lib.data.types import Catalogue, Item
from diffgr2lib.errors import DataError

ITEMS = 30


def catalogue(items=ITEMS):
    made = (Item(i, (i,), "", "", f"c{i % 4}" if i % 5 else "") for i in range(1, items + 1))
    return Catalogue(tuple(made), (items + 1,))


def sequences(users=40, seed=0):
    rng = np.random.default_rng(seed)
    return [
        tuple(int(i) + 1 for i in rng.choice(ITEMS, rng.integers(3, 9), replace=False))
        for _ in range(users)
    ]


def near_by_loops(bought, decay):
    table = np.zeros((ITEMS, ITEMS))
    for sequence in bought:
        for i, first in enumerate(sequence):
            for j in range(i + 1, len(sequence)):
                weight = decay ** (j - i - 1)
                table[first - 1, sequence[j] - 1] += weight
                table[sequence[j] - 1, first - 1] += BACKWARD * weight
    return table


def scores_by_loops(query, bought, settings):
    table, counts = near_by_loops(bought, settings.decay), np.zeros(ITEMS)
    for sequence in bought:
        for item in sequence:
            counts[item - 1] += 1
    total = np.zeros(ITEMS)
    for age, item in enumerate(reversed(query[-settings.window :])):
        total += settings.decay**age * table[item - 1]
    total /= np.maximum(1, counts) ** settings.exponent
    total[[item - 1 for item in query]] = -1
    return total


def test_cooccurrence_equals_loops():
    bought = sequences()
    np.testing.assert_allclose(
        cooccurrence(bought, ITEMS, 0.7).toarray(), near_by_loops(bought, 0.7), rtol=1e-5
    )


def test_ranking_equals_loops():
    bought, settings = sequences(), Settings(0.8, 0.4, 3)
    queries = sequences(20, seed=1)
    signals = Retriever(bought, catalogue(), settings).rank(queries, 10)
    for n, query in enumerate(queries):
        expected = scores_by_loops(query, bought, settings)
        np.testing.assert_allclose(signals.scores[n], np.sort(expected)[::-1][:10], atol=1e-5)
        np.testing.assert_allclose(signals.scores[n], expected[signals.ids[n] - 1], atol=1e-5)
        assert not set(signals.ids[n]) & set(query)
        assert len(set(signals.ids[n])) == 10


def test_signals_count_direct_followers_and_popularity():
    bought = [(1, 2, 3), (4, 1, 2), (2, 1, 5)]
    signals = Retriever(bought, catalogue(), Settings()).rank([(9, 1)], 10)
    follow = dict(zip(signals.ids[0], signals.follow[0], strict=True))
    counts = dict(zip(signals.ids[0], signals.popularity[0], strict=True))
    assert (follow[2], follow[5], follow[3], follow[4]) == (2, 1, 0, 0)
    assert (counts[2], counts[5], counts[3]) == (3, 1, 1)


def test_items_without_score_come_last_by_popularity_then_id():
    bought = [(1, 2, 3), (7, 8, 9), (8, 9, 10)]
    signals = Retriever(bought, catalogue(), Settings()).rank([(1,)], 6)
    assert set(signals.ids[0][:2]) == {2, 3}
    assert signals.ids[0][2:].tolist() == [8, 9, 4, 5]


def test_category_lift_is_one_by_chance_and_missing_never_follows():
    first, second = np.repeat([0, 1], 100), np.tile([0, 1], 100)
    np.testing.assert_allclose(category_lift(first, second, 2), 1.0)
    signals = Retriever(sequences(), catalogue(), Settings()).rank([(5,), (1,)], 10)
    assert (signals.lift[0] == 0).all()  # item 5 has no category
    assert all(
        lift == 0 for i, lift in zip(signals.ids[1], signals.lift[1], strict=True) if i % 5 == 0
    )


def test_tuning_picks_the_setting_with_most_hits(monkeypatch):
    grid = [Settings(d, e, w) for d in (0.5, 0.9) for w in (1, 4) for e in (0.0, 0.8)]
    monkeypatch.setattr(module, "GRID", grid)
    monkeypatch.setattr(module, "TOP", 3)
    bought, queries = sequences(60), sequences(80, seed=5)
    targets = np.array([query[-1] for query in queries])
    queries = [query[:-1] for query in queries]

    def hits(settings):
        lists = Retriever(bought, catalogue(), settings).rank(queries, 3)
        scored = (lists.ids == targets[:, None]) & (lists.scores > 1e-4)
        return int(scored.any(axis=1).sum())

    counts = [hits(settings) for settings in grid]
    assert tune(queries, targets, bought, ITEMS) == grid[int(np.argmax(counts))]
    assert min(counts) < max(counts)


def test_too_few_items_are_refused():
    with pytest.raises(DataError, match="too few"):
        Retriever([(1, 2, 3)], catalogue(8), Settings()).rank([(1, 2)], 10)
