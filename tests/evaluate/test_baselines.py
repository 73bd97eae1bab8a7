import numpy as np

from diffgr2lib.data.types import Example
from diffgr2lib.evaluate.baselines import boosted_ranks, floor_ranks, logistic_ranks
from tests.data.samples import planted_examples

TRAIN, TEST = planted_examples(800, seed=0), planted_examples(300, seed=1)


def best_possible():
    """Recall@1 of ordering by the planted column, ties in the retriever's order."""
    tops = [int(np.argmax([c.follow for c in e.candidates])) == e.target for e in TEST]
    return float(np.mean(tops))


def test_floor_is_the_retrievers_order():
    assert floor_ranks(TEST).tolist() == [example.target + 1 for example in TEST]


def test_baselines_find_the_planted_column():
    floor = (floor_ranks(TEST) == 1).mean()
    for ranks in (logistic_ranks(TRAIN, TEST), boosted_ranks(TRAIN, TEST)):
        assert ranks.shape == (300,) and ranks.min() >= 1 and ranks.max() <= 10
        assert (ranks == 1).mean() > floor + 0.1
        assert abs((ranks == 1).mean() - best_possible()) < 0.08


def test_test_targets_change_no_ranking():
    """Only the reported rank depends on the target: the ten of them are a permutation."""
    one = TEST[0]
    asked = [Example(1, one.history, one.candidates, k, "test") for k in range(10)]
    for ranks in (logistic_ranks(TRAIN, asked), boosted_ranks(TRAIN, asked)):
        assert sorted(ranks) == list(range(1, 11))


def test_boosting_repeats():
    np.testing.assert_array_equal(boosted_ranks(TRAIN, TEST, 3), boosted_ranks(TRAIN, TEST, 3))
