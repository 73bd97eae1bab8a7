"""The one grammar: prompts and responses are rendered, parsed and judged here and nowhere else.

Two forms share it. ``compact`` is a line of words for the small tokenizer; ``full`` is the paper's
chat layout with titles, for any checkpoint (Diffusion-GR2, arXiv 2607.01170, section 1; the literal
template was never printed, so the wording is ours).
"""

import json
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from diffgr2lib.data.evidence import brand_count, category_count
from diffgr2lib.data.scorecard import best_first
from diffgr2lib.data.types import Candidate, Example, Item
from diffgr2lib.errors import GrammarError

Form = Literal["compact", "full"]
Answer = Literal["sid", "label"]
Sid = tuple[int, ...]

LABELS = string.ascii_uppercase
LEVELS = "abcdefgh"
MISSING = "-"
OPEN, NEXT, CLOSE = '","recommendations":["', '","', '"]}'
START = '{"explanation":"'
FAILURES = ("malformed", "out-of-set", "duplicate", "omission")

SYSTEM = (
    "You are an expert re-ranker of a shop's recommendations. Read the purchases and candidates,"
    " reason step by step about the evidence, citing semantic ids, then end with one JSON object"
    ' with the keys "explanation" and "recommendations": all candidates, best first.'
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a response says.

    order: candidate indices best first, a permutation of range(K), or None where it is invalid.
    failures: which of `FAILURES` hold, empty for a valid answer. named: for each readable
    recommendation, the candidate index it names, None where it is out-of-set.
    theme, points: the trace's, None where the trace cannot be read or is absent.
    """

    order: tuple[int, ...] | None
    failures: frozenset[str]
    named: tuple[int | None, ...] = ()
    theme: str | None = None
    points: tuple[int, ...] | None = None

    @property
    def valid(self) -> bool:
        """Whether the answer is a permutation of the candidates."""
        return not self.failures

    def ranking(self, count: int) -> tuple[int, ...]:
        """The order, or the retriever's (0, 1, .., count - 1) where the answer is invalid."""
        return self.order if self.order is not None else tuple(range(count))


def slug(text: str) -> str:
    """One word without spaces, quotes or angle brackets; ``-`` for an empty text."""
    return re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_") or MISSING


def plain(text: str, limit: int = 120) -> str:
    """A title as inert text: no angle brackets, braces, quotes, pipes, line breaks or controls."""
    inert = re.sub(r"[<>{}\[\]|\"\\`\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text)
    return " ".join(inert.split())[:limit].strip()


@dataclass(frozen=True, slots=True)
class Grammar:
    """How items, evidence and answers are written.

    form: ``compact`` or ``full``. answer: ``sid`` names an item by label and semantic id (both must
    name the same candidate), ``label`` by its label alone. trace: False leaves the reasoning out.
    levels: number of SID levels, 1 to 8.
    """

    form: Form = "compact"
    answer: Answer = "sid"
    trace: bool = True
    levels: int = 2

    # -- items -----------------------------------------------------------------------------------

    def sid_words(self, sid: Sid) -> list[str]:
        """``['<a_3>', '<b_7>']`` for the semantic id (3, 7)."""
        return [f"<{LEVELS[level]}_{code}>" for level, code in enumerate(sid)]

    def sid_text(self, sid: Sid) -> str:
        """A semantic id as it stands in a text of this form."""
        words = self.sid_words(sid)
        if self.form == "compact":
            return " ".join(words)
        inner = "".join(f"<s_{word[1:]}" for word in words)
        return f"<|sid_begin|>{inner}<|sid_end|>"

    def item_words(self, item: Item) -> list[str]:
        """SID, category and brand of an item, compact."""
        return [*self.sid_words(item.sid), f"c:{slug(item.category)}", f"b:{slug(item.brand)}"]

    # -- prompts ---------------------------------------------------------------------------------

    def prompt(self, example: Example) -> str:
        """The prompt of one example; ``full`` gives the user message (see `messages`)."""
        if not 1 <= len(example.candidates) <= len(LABELS):
            raise GrammarError(
                f"User {example.user} has {len(example.candidates)} candidates; at least 1 and at"
                f" most {len(LABELS)} can be labelled. Mend the candidate list."
            )
        if self.form == "full":
            return self._full_prompt(example)
        words = ["history"]
        for item in example.history:
            words += self.item_words(item)
        words.append("candidates")
        for label, candidate in zip(LABELS, example.candidates, strict=False):
            words += [label, *self.item_words(candidate.item)]
            words += [*shown_evidence(candidate), *match_words(example.history, candidate.item)]
        return " ".join([*words, "rank"])

    def messages(self, example: Example) -> list[dict[str, str]]:
        """System and user message for a checkpoint's own chat template."""
        return [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": self.prompt(example)},
        ]

    def _full_prompt(self, example: Example) -> str:
        lines = ["Purchases, oldest first:"]
        lines += [f"- {self.described(item)}" for item in example.history]
        lines.append("Candidates, in the retriever's order:")
        for label, candidate in zip(LABELS, example.candidates, strict=False):
            evidence = " ".join(
                [*shown_evidence(candidate), *match_words(example.history, candidate.item)]
            )
            lines.append(f"{label} {self.described(candidate.item)} ({evidence})")
        lines.append("Rank the candidates by what this user buys next.")
        return "\n".join(lines)

    def described(self, item: Item) -> str:
        """Semantic id, title, category and brand of an item, full."""
        category, brand = plain(item.category) or MISSING, plain(item.brand) or MISSING
        return f"{self.sid_text(item.sid)} {plain(item.title)} | {category} | {brand}"

    # -- responses -------------------------------------------------------------------------------

    def response(
        self,
        example: Example,
        order: tuple[int, ...],
        theme: str = "balanced",
        points: tuple[int, ...] = (),
    ) -> str:
        """Trace (unless left out), then the JSON answer in `order` (indices, best first)."""
        parts = [*self.trace_parts(example, theme, points)] if self.trace else []
        return " ".join([*parts, self._answer(example, order, theme if self.trace else MISSING)])

    def trace_parts(self, example: Example, theme: str, points: tuple[int, ...]) -> list[str]:
        """The reasoning: the theme; evidence and points per candidate; the best by points."""
        full = self.form == "full"
        parts = [f"The history points to: {theme}.\n" if full else f"theme {theme}"]
        for k, candidate in enumerate(example.candidates):
            item = candidate.item
            evidence = " ".join(
                [*shown_evidence(candidate)[:3], *match_words(example.history, item)]
            )
            line = f"{LABELS[k]} {self.sid_text(item.sid)} {evidence}"
            line += f" ={points[k]}" if k < len(points) else ""
            parts.append(f"{line}\n" if full else line)
        best = " ".join(f"={points[k]} {LABELS[k]}" for k in best_first(points))
        parts.append(f"The best: {best}\n" if full else f"best {best}")
        return parts

    def _answer(self, example: Example, order: tuple[int, ...], theme: str) -> str:
        names = [self.name(k, example.candidates[k]) for k in order]
        if self.form == "compact":
            return " ".join([START, theme, OPEN, f" {NEXT} ".join(names), CLOSE])
        return json.dumps({"explanation": theme, "recommendations": names}, separators=(",", ":"))

    def name(self, index: int, candidate: Candidate) -> str:
        """How the answer names the candidate at `index`."""
        if self.answer == "label":
            return LABELS[index]
        return f"{LABELS[index]} {self.sid_text(candidate.item.sid)}"

    # -- parsing ---------------------------------------------------------------------------------

    def parse(self, response: str, example: Example) -> Parsed:
        """Read a response against its example. Never raises, whatever the string."""
        theme, points = self._read_trace(response, len(example.candidates))
        names = _recommendations(response)
        if names is None:
            return Parsed(None, frozenset({"malformed"}), (), theme, points)
        index = {self.name(k, c): k for k, c in enumerate(example.candidates)}
        well_formed = self._name_pattern()
        named: list[int | None] = []
        failures = set()
        for name in names:
            text = " ".join(name.split()) if isinstance(name, str) else ""
            named.append(index.get(text))
            if text not in index:
                failures.add("out-of-set" if well_formed.fullmatch(text) else "malformed")
        found = [k for k in named if k is not None]
        if len(set(found)) < len(found):
            failures.add("duplicate")
        if len(set(found)) < len(index):
            failures.add("omission")
        order = None if failures else tuple(found)
        return Parsed(order, frozenset(failures), tuple(named), theme, points)

    def _name_pattern(self) -> re.Pattern[str]:
        if self.answer == "label":
            return re.compile(r"[A-Z]")
        levels = LEVELS[: self.levels]
        if self.form == "compact":
            return re.compile("[A-Z] " + " ".join(rf"<{level}_\d+>" for level in levels))
        inner = "".join(rf"<s_{level}_\d+>" for level in levels)
        return re.compile(rf"[A-Z] <\|sid_begin\|>{inner}<\|sid_end\|>")

    def _read_trace(self, response: str, count: int) -> tuple[str | None, tuple[int, ...] | None]:
        trace = re.split(r"\bbest\b", response.split(START.strip('"'), 1)[0], maxsplit=1)[0]
        theme = re.search(r"(?:\btheme|points to:) (\w+)", trace)
        points = [int(value) for value in re.findall(r"(?:^|\s)=(\d{1,6})(?=\s|$)", trace)]
        return (theme[1] if theme else None), (tuple(points) if len(points) == count else None)


def shown_evidence(candidate: Candidate) -> list[str]:
    """The retriever-side evidence as the prompt shows it: score, follow, complement, popularity."""
    return [
        f"s{candidate.score}",
        f"f{candidate.follow}",
        f"k{candidate.complement}",
        f"p{candidate.popularity}",
    ]


def match_words(history: Sequence[Item], item: Item) -> list[str]:
    """``['n2', 'm0']``: shown purchases of the item's category and of its brand, 0 to 3."""
    return [f"n{category_count(history, item)}", f"m{brand_count(history, item)}"]


def _recommendations(response: str) -> list[object] | None:
    """The list of the last JSON answer in the text, or None where none can be read."""
    start = response.rfind(START[:-2])
    if start < 0:
        return None
    try:
        found, end = json.JSONDecoder().raw_decode(response[start:])
    except (ValueError, RecursionError):
        return None
    if response[start + end :].strip():
        return None
    if not isinstance(found, dict) or set(found) != {"explanation", "recommendations"}:
        return None
    names = found["recommendations"]
    if not isinstance(names, list) or not isinstance(found["explanation"], str):
        return None
    return names
