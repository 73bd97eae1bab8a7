"""The ranking panel names each failure, and knows when each rank was settled."""

import pytest

from diffgr2lib.report.answer import judge
from diffgr2lib.report.clock import read_clock
from tests.viewer.samples import answered


def judged(**options):
    made, words, example, grammar = answered(**options)
    return made, words, judge(made, read_clock(made), words, grammar, example)


def test_a_valid_answer_has_its_ranks_and_the_step_that_settled_each():
    made, words, found = judged()
    clock = read_clock(made)
    assert [rank.candidate for rank in found.ranks] == list(range(10))[::-1]
    assert found.sentences == ("Valid: a permutation of the 10 candidates.",)
    assert (found.floor_rank, found.true_rank) == (4, 7)
    for rank in found.ranks:
        label = "ABCDEFGHIJ"[rank.candidate]
        places = [n for n, t in enumerate(made.tokens[: made.length]) if words.words[t] == label]
        assert clock.step[places[-1]] == rank.settled


@pytest.mark.parametrize(
    ("swap", "sentence", "note"),
    [
        ([(2, "J")], "Duplicate: J stands at ranks 1 and 3.", "named before, at 1"),
        ([(2, "J")], "Omission: H missing.", "named before, at 1"),
        ([(0, "Z")], "Out-of-set: no candidate is named at rank 1.", "no candidate"),
        ([(0, "a&b")], "Malformed: some names cannot be read.", "no candidate"),
    ],
)
def test_failures_are_said_in_words(swap, sentence, note):
    _, _, found = judged(swap=swap)
    assert sentence in found.sentences and found.sentences[-1].startswith("Invalid")
    assert found.ranks[swap[0][0]].note == note
    assert found.true_rank == found.floor_rank == 4


def test_an_unreadable_answer_has_no_ranks():
    made, words, example, grammar = answered()
    short = type(made)(
        **{**made.to_json(), "length": 9}
        | {k: tuple(v) for k, v in made.to_json().items() if isinstance(v, list)}
    )
    found = judge(short, read_clock(short), words, grammar, example)
    assert found.ranks == () and found.sentences[0] == "Malformed: no JSON answer can be read."
