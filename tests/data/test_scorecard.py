import json

import numpy as np
import pytest

from diffgr2lib.data.evidence import EVIDENCE, EVIDENCE_LEVELS, evidence, one_hot
from diffgr2lib.data.scorecard import (
    DOUBLED,
    MAX_POINTS,
    THEMES,
    Scorecard,
    fit,
    fit_weights,
    order_by,
    rejection_sample,
    round_points,
    trace,
)
from diffgr2lib.data.types import Candidate, Example
from diffgr2lib.errors import DataError
from tests.data.samples import make_item, planted_examples, random_example

CARD = Scorecard({name: tuple(range(levels)) for name, levels in EVIDENCE_LEVELS.items()})


def test_fit_finds_planted_weights_and_rounds_them():
    weights = fit_weights(planted_examples(1500, seed=0, strength=1.0))
    names = np.repeat(EVIDENCE, list(EVIDENCE_LEVELS.values()))
    follow = weights[names == "follow"]
    np.testing.assert_allclose(np.diff(follow), 1.0, atol=0.3)
    assert abs(weights[names == "popularity"]).max() < 0.3
    card = round_points(weights, 4.0)
    assert card.points["follow"][0] == 0 and abs(card.points["follow"][3] - 12) <= 2
    assert all(min(values) == 0 for values in card.points.values())


def test_fit_is_a_stationary_point_of_the_conditional_likelihood():
    examples = planted_examples(200, seed=1)
    weights = fit_weights(examples, ridge=2.0)
    gradient = -2.0 * weights
    for example in examples:
        X = one_hot(evidence(example))
        p = np.exp(X @ weights - (X @ weights).max())
        gradient += X[example.target] - (p / p.sum()) @ X
    assert abs(gradient).max() < 0.05


def test_totals_add_up_and_themes_double_their_columns():
    example = random_example(np.random.default_rng(2))
    table = evidence(example)
    assert trace(CARD, example).points == tuple(np.minimum(table.sum(1), MAX_POINTS))
    for theme in THEMES:
        extra = sum(table[:, EVIDENCE.index(name)] for name in DOUBLED[theme])
        made = trace(CARD, example, theme)
        assert made.points == tuple(np.minimum(table.sum(1) + extra, MAX_POINTS))
        assert sorted(made.order) == list(range(10)) and made.theme == theme
        assert all(0 <= points <= MAX_POINTS for points in made.points)
    big = Scorecard({name: (40,) * levels for name, levels in EVIDENCE_LEVELS.items()})
    assert set(trace(big, example).points) == {MAX_POINTS}


def test_ties_keep_the_retrievers_order():
    assert order_by([1, 3, 3, 0, 3]) == (1, 2, 4, 0, 3)


def zero_card(**columns):
    zero = {name: (0,) * levels for name, levels in EVIDENCE_LEVELS.items()}
    return Scorecard({**zero, **columns})


def two(target, brand_first=False):
    """Candidate 0 has more follow, candidate 1 the brand of the history."""
    history = (make_item(9, "X"),)
    first = Candidate(make_item(1), 5, 2, 0, 0)
    second = Candidate(make_item(2, "X"), 3, 0, 0, 0)
    return Example(1, history, (first, second), target, "train")


def test_rejection_keeps_what_helps():
    card = zero_card(follow=(0, 2, 3, 4), brand_count=(0, 2, 2, 2))
    rng = np.random.default_rng(0)
    raised = rejection_sample(card, two(target=1), rng)
    assert raised is not None and raised.theme == "brand" and raised.order == (1, 0)
    kept = rejection_sample(card, two(target=0), rng)
    assert kept is not None and kept.theme == "balanced" and kept.order == (0, 1)


def test_rejection_refuses_what_does_not_help():
    rng = np.random.default_rng(0)
    assert rejection_sample(zero_card(follow=(0, 9, 9, 9)), two(target=1), rng) is None
    assert rejection_sample(zero_card(brand_count=(0, 9, 9, 9)), two(target=0), rng) is None
    only_balanced = zero_card(follow=(0, 2, 3, 4), brand_count=(0, 2, 2, 2))
    assert rejection_sample(only_balanced, two(target=1), rng, variants=1) is None
    with pytest.raises(DataError, match="true item"):
        rejection_sample(CARD, two(target=-1), rng)


def test_rejection_is_seeded_and_never_worse_than_balanced():
    examples = planted_examples(100, seed=3)
    card = fit(examples)
    runs = [
        [rejection_sample(card, e, rng) for e in examples]
        for rng in (np.random.default_rng(7), np.random.default_rng(7))
    ]
    assert runs[0] == runs[1]
    for example, kept in zip(examples, runs[0], strict=True):
        balanced = trace(card, example).order.index(example.target)
        if kept is None:
            assert balanced > 0 and balanced >= example.target
        else:
            assert kept.order.index(example.target) <= min(balanced, example.target)


def test_card_survives_json_and_needs_lists():
    assert Scorecard.from_json(json.loads(json.dumps(CARD.to_json()))) == CARD
    with pytest.raises(DataError, match="training lists"):
        fit([])
    with pytest.raises(DataError, match="true item"):
        fit([two(target=-1)])
