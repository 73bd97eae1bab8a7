"""A response's trace, read back part by part and held against what the grammar would have written.

Nothing here knows the wording of a prompt: the expected words come from `Grammar.trace_parts`.
"""

import re
from dataclasses import dataclass

from diffgr2lib.data.types import Example
from diffgr2lib.text.grammar import LABELS, START, Grammar, Parsed

EVIDENCE_WORD = re.compile(r"[sfkpnm]\d+")
POINTS_WORD = re.compile(r"=(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Line:
    """One candidate's line: semantic id as one string, evidence by its letter, points if given."""

    candidate: int
    sid: str
    evidence: dict[str, str]
    points: int | None


@dataclass(frozen=True, slots=True)
class ReadTrace:
    """What stands in a response, in its order.

    parts: names of the parts in the order in which they begin: ``theme``, labels, ``best``,
    ``answer``. lines: the first line of each candidate; expected: what it should say. best: the
    closing list's (points, candidate) pairs.
    """

    parsed: Parsed
    parts: tuple[str, ...]
    lines: dict[int, Line]
    expected: dict[int, Line]
    best: tuple[tuple[int, int], ...]


def read_trace(response: str, grammar: Grammar, example: Example) -> ReadTrace:
    """Read a response. Never raises, whatever the string; what is missing is simply absent."""
    K = len(example.candidates)
    trace, mark, _ = response.partition(START.strip('"'))
    words = trace.split()
    closing = next((n for n, w in enumerate(words) if w.strip(":.").lower() == "best"), len(words))
    begins = [n for n, w in enumerate(words[:closing]) if w in LABELS[:K] and len(w) == 1]
    parts: list[tuple[int, str]] = [(n, words[n]) for n in begins]
    parsed = grammar.parse(response, example)
    if parsed.theme is not None:
        opening = words[: begins[0]] if begins else words[:closing]
        parts += [(n, "theme") for n, w in enumerate(opening) if w.strip(".") == parsed.theme][:1]
    parts += [(closing, "best")] if closing < len(words) else []
    parts += [(len(words), "answer")] if mark and parsed.named else []
    lines: dict[int, Line] = {}
    for n, stop in zip(begins, [*begins, closing][1:], strict=True):
        line = _line(words[n:stop])
        lines.setdefault(line.candidate, line)
    written = grammar.trace_parts(example, "", ())[1 : K + 1]
    expected = {k: _line(text.split()) for k, text in enumerate(written)}
    rest = words[closing + 1 :]
    best = tuple(
        (int(found[1]), LABELS.index(label))
        for number, label in zip(rest[::2], rest[1::2], strict=False)
        if (found := POINTS_WORD.fullmatch(number)) and label in LABELS[:K] and len(label) == 1
    )
    return ReadTrace(parsed, tuple(name for _, name in sorted(parts)), lines, expected, best)


def _line(words: list[str]) -> Line:
    label, rest = words[0], words[1:]
    points = [int(found[1]) for word in rest if (found := POINTS_WORD.fullmatch(word))]
    evidence = [word for word in rest if EVIDENCE_WORD.fullmatch(word)]
    plain = (n for n, w in enumerate(rest) if EVIDENCE_WORD.fullmatch(w) or w.startswith("="))
    other = rest[: next(plain, len(rest))]
    return Line(
        LABELS.index(label), "".join(other), {word[0]: word[1:] for word in evidence},
        points[0] if points else None,
    )  # fmt: skip
