"""A small catalogue, its grammar and tokenizer, and training rows."""

import numpy as np
import pytest

from diffgr2lib.data import scorecard
from diffgr2lib.data.types import Candidate, Catalogue, Example, Item
from diffgr2lib.model.policy import build_policy
from diffgr2lib.text.grammar import Grammar
from diffgr2lib.text.tokenizer import train_tokenizer
from diffgr2lib.train.rows import encode_row


@pytest.fixture(scope="session")
def catalogue():
    rng = np.random.default_rng(0)
    items = tuple(
        Item(i + 1, (i % 8, i // 8), f"item {i}", f"brand {i % 5}", f"kind {rng.integers(4)}")
        for i in range(64)
    )
    return Catalogue(items, (8, 8))


@pytest.fixture(scope="session")
def grammar():
    return Grammar()


@pytest.fixture(scope="session")
def tokenizer(catalogue, grammar):
    return train_tokenizer(catalogue, grammar)


@pytest.fixture(scope="session")
def examples(catalogue):
    rng = np.random.default_rng(1)
    made = []
    for user in range(12):
        ids = rng.choice(64, 10 + int(rng.integers(1, 6)), replace=False) + 1
        items = [catalogue.item(int(i)) for i in ids]
        candidates = tuple(
            Candidate(item, *(int(x) for x in rng.integers(0, 4, 4))) for item in items[:10]
        )
        made.append(Example(user, tuple(items[10:]), candidates, int(rng.integers(10)), "train"))
    return made


@pytest.fixture(scope="session")
def rows(examples, grammar, tokenizer):
    card = scorecard.fit(examples)
    return [
        encode_row(tokenizer, grammar, example, scorecard.trace(card, example), 0.5, 1.0)
        for example in examples
    ]


@pytest.fixture
def fresh(tokenizer):
    """A new small policy, the same each time."""
    return lambda **kw: build_policy(tokenizer, 32, 2, 2, 64, 512, seed=0, **kw)
