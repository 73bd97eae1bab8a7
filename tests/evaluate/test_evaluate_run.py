"""Where an invalid answer begins, for `remask-once` to mask it from there on."""

from dataclasses import replace

import pytest

from diffgr2lib.data.types import Candidate, Example, Item
from diffgr2lib.evaluate.run import faulty_blocks
from diffgr2lib.text.grammar import CLOSE, NEXT, OPEN, START, Grammar
from tests.tiny import MakePolicy


class Words:
    """A tokenizer of a fixed list of words: ids to text is all that is asked of it."""

    def __init__(self, words: list[str]) -> None:
        self.words = words

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return " ".join(self.words[n] for n in ids)


EXAMPLE = Example(
    user=1,
    history=(),
    candidates=tuple(
        Candidate(Item(n + 1, (0, n), "t", "b", "c", -1), 0, 0, 0, 0) for n in range(3)
    ),
    target=0,
    split="test",
)
WORDS = ["[PAD]", "[EOS]", "think", START, "overall", OPEN, "A", NEXT, "B", "C", CLOSE]
IDS = {word: n for n, word in enumerate(WORDS)}


def response(order: list[str], trace: int) -> list[int]:
    """`trace` words of reasoning, then the answer."""
    names = [word for label in order for word in (label, NEXT)][:-1]
    text = ["think"] * trace + [START, "overall", OPEN, *names, CLOSE, "[EOS]"]
    return [IDS[word] for word in text]


@pytest.mark.parametrize("trace, block", [(0, 0), (3, 0), (4, 1), (9, 2)])
def test_an_invalid_answer_begins_in_the_block_of_its_first_word(
    make_policy: MakePolicy, trace: int, block: int
) -> None:
    policy = replace(make_policy(4, "block"), tokenizer=Words(WORDS))
    grammar = Grammar(form="compact", answer="label", levels=2)
    right, twice = response(["B", "A", "C"], trace), response(["B", "B", "C"], trace)
    never = [IDS["think"]] * 9  # no answer at all: its last block is decoded again
    rows = [right, twice, never]
    assert faulty_blocks(policy, grammar, [EXAMPLE] * 3, rows) == [None, block, 2]
