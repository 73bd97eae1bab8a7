"""Hand-made trajectories over any words, hostile ones too, for the tests of the viewer."""

import numpy as np

from diffgr2lib.data.types import Candidate, Example, Item
from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.text.grammar import Grammar

HOSTILE = (
    "<script>alert(1)</script>",
    "a&b",
    "line\nbreak",
    "😀",
    "\u202eabc",
    "שלום",
    '"quote"',
    " x ",
    "$x$",
)
TITLE = '<img src=x onerror="document.title=1"> & co'
END, MASK = "<end>", "<mask>"


class Words:
    """A tokenizer over a list of words: decoding joins them with spaces."""

    def __init__(self, words):
        self.words = [END, MASK, *dict.fromkeys(words)]
        self.eos_token_id, self.mask_token_id = 0, 1

    def decode(self, ids, **options):
        return " ".join(self.words[n] for n in ids)

    def convert_ids_to_tokens(self, token):
        return self.words[token]

    def encode(self, words):
        return [self.words.index(word) for word in words]


def example(title="item", target=3):
    """Ten candidates, user 7."""
    items = [
        Item(n + 1, (n, 13 - n), f"{title} {n}", f"brand {n % 3}", f"kind {n % 4}")
        for n in range(14)
    ]
    candidates = tuple(
        Candidate(item, n % 6, n % 4, n % 3, n % 4) for n, item in enumerate(items[:10])
    )
    return Example(7, tuple(items[10:]), candidates, target, "test")


def trajectory(ids, B=4, seed=0, spill=(), most=3, prompt=(2, 3)):
    """Commits of 1 to `most` tokens a step in random order; `spill` stands after the end token."""
    rng = np.random.default_rng(seed)
    length = len(ids)
    ids = [*ids, *spill]
    ids += [1] * (-len(ids) % B)
    reveal, steps = [-1] * len(ids), 0
    for start in range(0, len(ids), B):
        places = [n for n in rng.permutation(range(start, start + B)) if ids[n] != 1]
        step = 0
        while places:
            take = int(rng.integers(1, most + 1))
            for place in places[:take]:
                reveal[place] = step
            places, step = places[take:], step + 1
        steps += step
    sure = rng.uniform(0.3, 1, len(ids)).round(4)
    return Trajectory(
        prompt=prompt,
        tokens=tuple(ids),
        reveal_step=tuple(reveal),
        confidence=tuple(float(p) if r >= 0 else 0.0 for p, r in zip(sure, reveal, strict=True)),
        log_probability=tuple(
            float(np.log(p)) if r >= 0 else 0.0 for p, r in zip(sure, reveal, strict=True)
        ),
        block_size=B,
        temperature=0.0,
        length=length,
        nfe=steps + (B > 1),
    )


def answered(order=None, swap=(), B=8, seed=0, title="item", target=3):
    """A trajectory that ends with a ranking; swap: (position in the answer, label) to overwrite."""
    given, grammar = example(title, target), Grammar(answer="label")
    order = tuple(range(10))[::-1] if order is None else order
    words = grammar.response(given, order, "balanced", tuple(range(10, 20))).split(" ")
    first = [n for n, word in enumerate(words) if word.startswith('","rec')][0] + 1
    for place, label in swap:
        words[first + 2 * place] = label
    tokenizer = Words([*words, *HOSTILE, "Z"])
    made = trajectory([*tokenizer.encode(words), 0], B, seed, spill=tokenizer.encode(["Z"]))
    return made, tokenizer, given, grammar


def hostile(length=36, B=6, seed=1):
    """A trajectory of hostile tokens."""
    tokenizer = Words(HOSTILE)
    ids = [2 + n % len(HOSTILE) for n in range(length - 1)] + [0]
    return trajectory(ids, B, seed), tokenizer
