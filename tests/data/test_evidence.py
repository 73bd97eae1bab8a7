import json

import numpy as np

from diffgr2lib.data.evidence import (
    EVIDENCE,
    EVIDENCE_LEVELS,
    brand_count,
    category_count,
    evidence,
    one_hot,
)
from diffgr2lib.data.types import Candidate, Catalogue, Example, Item
from tests.data.samples import make_item, random_example


def test_counts_are_capped_and_missing_never_matches():
    history = tuple(make_item(n, "X", "p") for n in range(5)) + (
        make_item(9),
        make_item(8, "Y", "q"),
    )
    assert brand_count(history, make_item(1, "X")) == 3
    assert brand_count(history, make_item(1, "Y")) == 1
    assert brand_count(history, make_item(1)) == category_count(history, make_item(1)) == 0
    assert category_count(history, make_item(1, "", "q")) == 1


def test_columns_are_what_the_prompt_shows():
    history = (make_item(5, "X", "p"), make_item(6, "X", "q"))
    shown = [
        Candidate(make_item(1, "X", "q"), 5, 2, 1, 3),
        Candidate(make_item(2, "", "p"), 0, 0, 3, 1),
    ]
    table = evidence(Example(1, history, tuple(shown), 0, "test"))
    assert EVIDENCE == (
        "rank", "score", "follow", "complement", "popularity", "category_count", "brand_count",
    )  # fmt: skip
    assert table.tolist() == [[0, 5, 2, 1, 3, 1, 2], [1, 0, 0, 3, 1, 1, 0]]


def test_one_hot_has_one_indicator_a_column():
    table = evidence(random_example(np.random.default_rng(0)))
    hot, start = one_hot(table), 0
    for column, levels in enumerate(EVIDENCE_LEVELS.values()):
        np.testing.assert_array_equal(hot[:, start : start + levels].argmax(1), table[:, column])
        start += levels
    assert hot.shape == (10, start) and (hot.sum(1) == len(EVIDENCE)).all()


def test_catalogue_and_example_survive_json():
    items = tuple(Item(n, (n, 2), f"t{n}", "X", "p", n % 4) for n in range(1, 6))
    catalogue = Catalogue(items, (6, 3))
    again = Catalogue.from_json(json.loads(json.dumps(catalogue.to_json())))
    assert again == catalogue and again.item(3) == items[2] and again.by_sid[3, 2] == (3,)
    example = Example(4, items[:2], (Candidate(items[3], 5, 1, 2, 3),), -1, "test")
    assert Example.from_json(json.loads(json.dumps(example.to_json())), again) == example
