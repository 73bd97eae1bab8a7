"""Small hand-made and random examples for the tests of evidence, scorecard and baselines."""

import numpy as np

from diffgr2lib.data.types import Candidate, Example, Item


def make_item(number, brand="", category=""):
    return Item(number, (number,), "", brand, category)


def random_example(rng, target=None, K=10):
    def item():
        return make_item(
            int(rng.integers(1, 999)), rng.choice(["", "X", "Y"]), rng.choice(["", "p", "q", "r"])
        )

    candidates = tuple(
        Candidate(item(), int(s), *(int(level) for level in rng.integers(0, 4, 3)))
        for s in sorted(rng.integers(0, 6, K))[::-1]
    )
    history = tuple(item() for _ in range(rng.integers(1, 9)))
    return Example(
        1, history, candidates, int(rng.integers(K)) if target is None else target, "train"
    )


def planted_examples(count, seed, strength=1.5):
    """Examples whose target is drawn by a softmax over the follow bucket alone."""
    rng, made = np.random.default_rng(seed), []
    for _ in range(count):
        example = random_example(rng, target=0)
        utility = strength * np.array([candidate.follow for candidate in example.candidates])
        target = int((utility + rng.gumbel(size=len(utility))).argmax())
        made.append(Example(1, example.history, example.candidates, target, "train"))
    return made
