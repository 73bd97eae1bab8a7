import dataclasses
import json

import numpy as np
import pytest

from diffgr2lib.config import DataConfig
from diffgr2lib.data import lists as module
from diffgr2lib.data import retriever
from diffgr2lib.data.lists import Lists, build_lists, cross_fitted, leave_one_out, make_lists
from diffgr2lib.data.retriever import Settings
from diffgr2lib.data.scorecard import fit_weights
from diffgr2lib.data.toy import make_toy
from diffgr2lib.data.types import Dataset
from diffgr2lib.errors import DataError
from diffgr2lib.evaluate.baselines import floor_ranks, logistic_ranks

CONFIG = DataConfig(users=400, items=120, codes=16, max_validation=20, max_test=30)
FEW = [Settings(0.8, exponent, window) for window in (4, 8) for exponent in (0.0, 0.3)]


@pytest.fixture(autouse=True)
def _small_grid(monkeypatch):
    monkeypatch.setattr(retriever, "GRID", FEW)


@pytest.fixture(scope="module")
def world():
    return make_toy(CONFIG)


def changed(dataset, change):
    sequences = {user: change(user, s) for user, s in dataset.sequences.items()}
    return Dataset(dataset.name, dataset.catalogue, sequences)


def test_lists_hold_their_targets_and_show_the_prompt(world):
    made = build_lists(world.dataset, CONFIG, world.oracle)
    assert (len(made.validation), len(made.test)) == (20, 30)
    for split in ("train", "validation", "test"):
        for example in getattr(made, split):
            sequence = world.dataset.sequences[example.user]
            shown = tuple(item.id for item in example.history)
            target = example.candidates[example.target].item.id
            at = sequence.index(target)
            assert example.split == split
            assert shown == sequence[max(0, at - CONFIG.history_shown) : at]
            place = {"validation": len(sequence) - 2, "test": len(sequence) - 1}.get(split)
            assert at == place if place else 1 <= at < len(sequence) - 2
            assert len({c.item.id for c in example.candidates}) == 10
            assert not {c.item.id for c in example.candidates} & set(sequence[:at])
            for candidate in example.candidates:
                assert 0 <= candidate.score <= 5 and 0 <= candidate.follow <= 3
                assert 0 <= candidate.complement <= 3 and 0 <= candidate.popularity <= 3
            assert example.candidates[0].score == 5
    report = made.report
    assert report["test"]["queries"] == 400
    assert report["test"]["unconditional_recall@1"] == pytest.approx(
        report["test"]["hit_rate"] * report["test"]["floor_recall@1"]
    )
    assert 0 < report["test"]["bayes_recall@1"] <= 1


def test_lists_are_deterministic_and_survive_json(world):
    made = build_lists(world.dataset, CONFIG)
    again = Lists.from_json(json.loads(json.dumps(made.to_json())))
    assert again == made == build_lists(world.dataset, CONFIG)
    other = build_lists(world.dataset, dataclasses.replace(CONFIG, seed=5))
    assert other.train != made.train


def test_test_items_influence_no_other_list_and_no_setting(world):
    def other_last(user, sequence):
        return (*sequence[:-1], next(i for i in range(user % 50 + 1, 121) if i not in sequence))

    before = build_lists(world.dataset, CONFIG)
    after = build_lists(changed(world.dataset, other_last), CONFIG)
    assert after.train == before.train
    assert after.validation == before.validation
    assert after.report["retriever"] == before.report["retriever"]


def test_training_lists_have_not_seen_their_targets(world):
    """Other targets of one user change no list and no evidence of that user's queries."""
    config = dataclasses.replace(CONFIG, train_positions=1)

    def other_target(user, sequence):
        new = next(i for i in range(1, 121) if i not in sequence)
        return (*sequence[:-3], new, *sequence[-2:]) if user == 7 else sequence

    tasks = [
        cross_fitted(data, Settings(), config, np.random.default_rng(0))
        for data in (world.dataset, changed(world.dataset, other_target))
    ]
    rows = [int(np.flatnonzero(part.users == 7)[0]) for part in tasks]
    for name in ("ids", "scores", "follow", "lift", "popularity"):
        first, second = (
            getattr(part.signals, name)[row] for part, row in zip(tasks, rows, strict=True)
        )
        np.testing.assert_array_equal(first, second)


def test_leave_one_out_asks_for_the_item_after_the_query(world):
    fitting = [sequence[:-1] for sequence in world.dataset.sequences.values()]
    tasks = leave_one_out(world.dataset, Settings(), 10, fitting, -1)
    for query, ids, target, sequence in zip(
        tasks.queries,
        tasks.signals.ids,
        tasks.targets,
        world.dataset.sequences.values(),
        strict=True,
    ):
        assert query == sequence[:-1]
        assert (ids[target] == sequence[-1]) if target >= 0 else sequence[-1] not in ids


def test_no_list_left_is_an_error(world):
    reverse = changed(world.dataset, lambda user, s: (1, 2, 3, 4, 4))
    with pytest.raises(DataError, match="nothing to re-rank"):
        build_lists(reverse, CONFIG)


def test_toy_evidence_is_stronger_than_the_retriever():
    """Aims of the toy world, at half its users (so with wider bands): room above the floor."""
    made = make_lists(DataConfig(users=3000))
    floor = float((floor_ranks(made.test) == 1).mean())
    train_floor = float((floor_ranks(made.train) == 1).mean())
    logistic = float((logistic_ranks(made.train, made.test) == 1).mean())
    assert 0.20 <= floor <= 0.34 and abs(train_floor - floor) < 0.06
    assert logistic >= floor + 0.10
    assert made.report["test"]["bayes_recall@1"] >= max(logistic, floor + 0.15)
    assert made.report["test"]["hit_rate"] >= 0.25
    assert np.isfinite(fit_weights(made.train)).all()


def test_score_bucket_is_relative_to_the_list():
    scores = np.array([[8.0, 4.0, 1.0], [0.8, 0.4, 0.1]])
    np.testing.assert_allclose(*module.below_top(scores))
