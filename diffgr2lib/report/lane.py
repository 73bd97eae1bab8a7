"""A lane: one trajectory with its words, clock and colours, ready to be drawn."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.errors import ModelError
from diffgr2lib.report.alternatives import Alternatives
from diffgr2lib.report.clock import Clock, read_clock

STEP_BINS = 6
CONFIDENCE_BINS = (0.5, 0.7, 0.9, 0.99)  # lower bounds of bins 1 to 4
PICTURES = {"\n": "↵", "\r": "↵", "\t": "⇥", " ": "␣"}
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@dataclass(frozen=True)
class Lane:
    """One system's trajectory.

    words: each token as visible text. agrees: for each position whether the other lane has the same
    token there, None where there is no other lane or no token to compare. end_token_id and
    mask_token_id: None where the tokenizer names none.
    """

    name: str
    trajectory: Trajectory
    words: tuple[str, ...]
    agrees: tuple[bool | None, ...]
    alternatives: Alternatives | None = None
    vocabulary: dict[int, str] | None = None

    @cached_property
    def clock(self) -> Clock:
        """Steps and passes."""
        return read_clock(self.trajectory)

    @property
    def first_difference(self) -> int | None:
        """The first position whose token differs from the other lane's."""
        return next((n for n, same in enumerate(self.agrees) if same is False), None)

    def step_bin(self, place: int) -> int:
        """0 to STEP_BINS - 1: how late in its block a position was committed."""
        own = self.trajectory.reveal_step[place]
        most = max(1, max(self.trajectory.reveal_step))
        return 0 if own <= 0 else 1 + min(STEP_BINS - 2, (own - 1) * (STEP_BINS - 1) // most)

    def confidence_bin(self, place: int) -> int:
        """0 to 4, by `CONFIDENCE_BINS`."""
        return sum(self.trajectory.confidence[place] >= bound for bound in CONFIDENCE_BINS)


def make_lane(
    name: str,
    trajectory: Trajectory,
    tokenizer: Any,
    against: Trajectory | None = None,
    alternatives: Alternatives | None = None,
) -> Lane:
    """A lane, compared position by position with another trajectory if one is given."""
    words = tuple(visible(word(tokenizer, token)) for token in trajectory.tokens)
    agrees: list[bool | None] = [None] * len(trajectory.tokens)
    if against is not None:
        for place in range(trajectory.length):
            other = against.tokens[place] if place < against.length else None
            agrees[place] = trajectory.tokens[place] == other
    named = None
    if alternatives is not None:
        seen = {token for row in alternatives.top for token, _ in row}
        named = {token: visible(word(tokenizer, token)) for token in seen}
    return Lane(name, trajectory, words, tuple(agrees), alternatives, named)


def word(tokenizer: Any, token: int) -> str:
    """One token as text; its vocabulary entry where it is only part of a character."""
    text = str(tokenizer.decode([token], skip_special_tokens=False))
    if not text or "\ufffd" in text:
        text = str(tokenizer.convert_ids_to_tokens(token))
    return text


def visible(text: str) -> str:
    """Text in which nothing is invisible: line breaks, tabs and outer spaces become signs.

    Control, format and surrogate characters (those that turn the writing direction too) are
    written as their code, as in ``[U+202E]``, except the joiners inside emoji.
    """
    shown = []
    for place, mark in enumerate(text):
        outer = place in (0, len(text) - 1)
        if mark in PICTURES and (mark != " " or outer):
            shown.append(PICTURES[mark])
        elif mark in BIDI or (unicodedata.category(mark) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
                              and mark not in "\u200d\u200c"):  # fmt: skip
            shown.append(f"[U+{ord(mark):04X}]")
        else:
            shown.append(mark)
    return "".join(shown)


def as_tokenizer(source: Any) -> Any:
    """The tokenizer of a policy, or the tokenizer itself. Raises `ModelError` for neither."""
    tokenizer = getattr(source, "tokenizer", source)
    if not hasattr(tokenizer, "decode") or not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise ModelError(
            f"The viewer needs a policy with a tokenizer, or a tokenizer; it got {source!r:.80}."
        )
    return tokenizer


def check_prompts(trajectories: Sequence[Trajectory]) -> None:
    """Raise `ModelError` unless all trajectories answer the same prompt."""
    if len({one.prompt for one in trajectories}) > 1:
        raise ModelError(
            "The trajectories answer different prompts; decode the same example with each system."
        )
