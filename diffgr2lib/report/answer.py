"""The ranking that a trajectory ends with, rank by rank, and its failures in words."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from diffgr2lib.data.types import Example
from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.report.clock import Clock
from diffgr2lib.report.lane import visible
from diffgr2lib.text.grammar import LABELS, START, Grammar, Parsed


@dataclass(frozen=True, slots=True)
class Rank:
    """One recommendation: its place from 1, the candidate that it names (None: no candidate).

    settled: the denoising step after which it stands (of the clock, 1 to S). note: what is wrong
    with it, "" for nothing. text: the name as written, where it is no candidate's.
    """

    place: int
    candidate: int | None
    settled: int
    note: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A judged answer. ranks: as written. missing: candidates that it leaves out."""

    parsed: Parsed
    ranks: tuple[Rank, ...]
    missing: tuple[int, ...]
    sentences: tuple[str, ...]
    true_rank: int
    floor_rank: int


def judge(
    trajectory: Trajectory, clock: Clock, tokenizer: Any, grammar: Grammar, example: Example
) -> Answer:
    """Parse the response and say, rank by rank, what it names and when that was settled.

    true_rank is the new rank of the item bought next, the retriever's where the answer is invalid;
    both are 0 where the list does not hold it.
    """
    tokens = trajectory.tokens[: trajectory.length]
    end = getattr(tokenizer, "eos_token_id", None)
    if tokens and tokens[-1] == end:
        tokens = tokens[:-1]
    text = str(tokenizer.decode(list(tokens), skip_special_tokens=False))
    parsed = grammar.parse(text, example)
    names = _spans(text, len(parsed.named))
    ends = [
        len(str(tokenizer.decode(list(tokens[: n + 1]), skip_special_tokens=False)))
        for n in range(len(tokens))
    ]
    ranks = []
    for place, candidate in enumerate(parsed.named):
        settled, written = clock.steps, ""
        if place < len(names):
            begin, stop = names[place]
            written = text[begin:stop]
            inside = range(
                bisect_right(ends, begin), min(len(ends), bisect_right(ends, stop - 1) + 1)
            )
            settled = max((clock.step[n] for n in inside), default=clock.steps)
        ranks.append(Rank(place + 1, candidate, settled, _note(parsed, place), visible(written)))
    K = len(example.candidates)
    missing = tuple(k for k in range(K) if parsed.named and k not in parsed.named)
    order = parsed.ranking(K)
    true = order.index(example.target) + 1 if example.target >= 0 else 0
    sentences = tuple(failure_sentences(parsed, ranks, K))
    return Answer(parsed, tuple(ranks), missing, sentences, true, example.target + 1)


def _spans(text: str, count: int) -> list[tuple[int, int]]:
    """Where the last `count` quoted strings of a response stand: its recommendations."""
    start = max(0, text.rfind(START[:-2]))
    marks = [n for n in range(start, len(text)) if text[n] == '"']
    pairs = []
    for before, stop in zip(marks[::2], marks[1::2], strict=False):
        inner = text[before + 1 : stop]
        blank = len(inner) - len(inner.lstrip()) if inner.strip() else 0
        pairs.append((before + 1 + blank, before + 1 + max(blank + 1, len(inner.rstrip()))))
    return pairs[-count:] if count else []


def _note(parsed: Parsed, place: int) -> str:
    candidate = parsed.named[place]
    if candidate is None:
        return "no candidate"
    first = parsed.named.index(candidate)
    return f"named before, at {first + 1}" if first < place else ""


def failure_sentences(parsed: Parsed, ranks: list[Rank], count: int) -> list[str]:
    """Each failure type of an answer as a sentence; one sentence for a valid answer."""
    named, said = parsed.named, []
    if parsed.valid:
        return [f"Valid: a permutation of the {count} candidates."]
    if "malformed" in parsed.failures:
        said.append(
            "Malformed: some names cannot be read."
            if named
            else "Malformed: no JSON answer can be read."
        )
    if "out-of-set" in parsed.failures:
        odd = [str(rank.place) for rank in ranks if rank.candidate is None]
        said.append(f"Out-of-set: no candidate is named at rank {' and '.join(odd)}.")
    if "duplicate" in parsed.failures:
        for k in sorted({k for k in named if k is not None and named.count(k) > 1}):
            places = [str(n + 1) for n, one in enumerate(named) if one == k]
            said.append(f"Duplicate: {LABELS[k]} stands at ranks {' and '.join(places)}.")
    if "omission" in parsed.failures and named:
        absent = ", ".join(LABELS[k] for k in range(count) if k not in named)
        said.append(f"Omission: {absent} missing.")
    return [*said, "Invalid, so the retriever's order stands."]
