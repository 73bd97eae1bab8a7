"""The reward table and group-normalised advantages."""

import numpy as np
import pytest

from diffgr2lib.onpolicy.reward import advantages, reward

TABLE = [  # rank before, rank after, reward with ten candidates and alpha 0.2
    ("improved", 5, 2, 0.3 + 0.2),
    ("kept at rank 1", 1, 1, 0.2),
    ("copied order", 4, 4, 0.0),
    ("worsened", 2, 5, -0.3),
    ("lost rank 1", 1, 2, -0.1),
    ("invalid or over-long", 3, None, -1.0),
]


@pytest.mark.parametrize(("case", "before", "after", "want"), TABLE)
def test_claim_26_reward_table(case, before, after, want):
    assert reward(before, after, 10) == pytest.approx(want), case


def test_claim_26_alpha_is_added_only_where_it_is_earned():
    for before in range(1, 11):
        for after in range(1, 11):
            bonus = reward(before, after, 10, 0.2) - reward(before, after, 10, 0.0)
            earned = after < before or before == after == 1
            assert bonus == pytest.approx(0.2 if earned else 0.0)


def test_claim_27_advantages_are_normalised_within_the_group():
    rewards = np.array([[1.0, 0.0, 0.0, 1.0], [0.3, 0.3, 0.3, 0.3], [-1.0, 0.5, 0.2, 0.2]])
    found = advantages(rewards)
    assert np.allclose(found.mean(1), 0) and np.allclose(found[[0, 2]].std(1), 1)
    assert not found[1].any()
    assert np.allclose(advantages(rewards * 5 + 2), found)
