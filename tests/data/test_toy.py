import numpy as np
import pytest

from diffgr2lib.config import DataConfig
from diffgr2lib.data import toy
from diffgr2lib.data.toy import make_toy

CONFIG = DataConfig(users=400, items=120, codes=16)


@pytest.fixture(scope="module")
def world():
    return make_toy(CONFIG)


def test_catalogue_is_large_varied_and_uniquely_named():
    items = make_toy(DataConfig(users=20)).dataset.catalogue.items
    assert [item.id for item in items] == list(range(1, 481))
    assert len({item.category for item in items}) == 16
    assert len({item.brand for item in items}) == 24
    assert {item.price for item in items} == {0, 1, 2, 3}
    assert len({item.sid for item in items}) == 480
    assert len({item.sid[0] for item in items}) > 16


def test_sequences_fit_the_prompt_and_never_repeat(world):
    lengths = {len(sequence) for sequence in world.dataset.sequences.values()}
    assert lengths == set(range(5, 10))
    assert max(lengths) - 1 <= CONFIG.history_shown
    assert all(len(set(s)) == len(s) for s in world.dataset.sequences.values())


def test_world_depends_on_the_seed_only(world):
    assert make_toy(CONFIG).dataset == world.dataset
    other = make_toy(DataConfig(users=400, items=120, codes=16, seed=1))
    assert other.dataset.sequences != world.dataset.sequences


def test_oracle_equals_enumeration(world):
    oracle, shop, history = world.oracle, world.oracle.shop, (3, 40, 77)
    joint = np.zeros(120)
    for kind in range(3):
        for brand in range(len(toy.BRANDS)):
            for category in range(len(toy.CATEGORIES)):
                for price in range(toy.PRICES):
                    p = toy.KIND_SHARES[kind] / (24 * 16 * 4)
                    gone, last = np.zeros(120, bool), -1
                    for bought in (*history, None):
                        weight = toy.TASTE[kind]
                        utility = shop.popularity + weight[0] * (shop.brand == brand)
                        utility = utility + weight[1] * (shop.category == category)
                        if last >= 0:
                            utility = utility + weight[2] * (shop.category == shop.follows[last])
                        chance = np.exp(utility + weight[3] * (shop.price == price)) * ~gone
                        chance /= chance.sum()
                        if bought is None:
                            joint += p * chance
                        else:
                            p *= chance[bought - 1]
                            gone[bought - 1], last = True, shop.category[bought - 1]
    log_probs = oracle.log_probs(history)
    np.testing.assert_allclose(np.exp(log_probs), joint / joint.sum(), atol=1e-12)
    np.testing.assert_allclose(oracle.log_probs(history, [9, 3]), log_probs[[8, 2]])
    assert np.isneginf(log_probs[[2, 39, 76]]).all()


def test_oracle_is_calibrated(world):
    chances, right = [], []
    for sequence in list(world.dataset.sequences.values())[:150]:
        log_probs = world.oracle.log_probs(sequence[:-1])
        chances.append(np.exp(log_probs.max()))
        right.append(log_probs.argmax() + 1 == sequence[-1])
    spread = np.sqrt(np.mean(np.array(chances) * (1 - np.array(chances))) / 150)
    assert abs(np.mean(right) - np.mean(chances)) < 4 * spread
    assert np.mean(chances) > 0.1
