"""Words are visible and inert, colours are binned, lanes are compared position by position."""

import pytest

from diffgr2lib.errors import ModelError
from diffgr2lib.report.lane import as_tokenizer, make_lane, visible
from tests.viewer.samples import HOSTILE, Words, hostile, trajectory


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "a↵b"),
        (" a b ", "␣a b␣"),
        ("\t", "⇥"),
        ("\u202eabc", "[U+202E]abc"),
        ("\x00", "[U+0000]"),
        ("\u2028", "[U+2028]"),
        ("😀", "😀"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("שלום", "שלום"),
        ("<b>&", "<b>&"),
    ],
)
def test_nothing_is_invisible(text, shown):
    assert visible(text) == shown


def test_agreement_is_by_position_and_stops_at_the_end():
    words = Words(["a", "b", "c"])
    one, other = trajectory([2, 3, 4, 0]), trajectory([2, 4, 4, 3, 0], B=1)
    lane = make_lane("x", one, words, other)
    assert lane.agrees == (True, False, True, False) and lane.first_difference == 1
    assert make_lane("x", one, words).agrees == (None,) * 4


def test_bins_span_their_ranges():
    lane = make_lane("x", *hostile())
    assert {lane.step_bin(n) for n in range(36)} <= set(range(6)) and lane.step_bin(0) >= 0
    assert {lane.confidence_bin(n) for n in range(36)} == {0, 1, 2, 3} | (
        {4} if max(lane.trajectory.confidence) >= 0.99 else set()
    )
    assert set(map(visible, HOSTILE)) == {w for w in lane.words if w != "<end>"}


def test_something_else_than_a_tokenizer_is_refused():
    with pytest.raises(ModelError, match="a policy with a tokenizer"):
        as_tokenizer(3)
