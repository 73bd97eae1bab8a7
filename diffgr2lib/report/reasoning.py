"""Table 4: reasoning quality, by rules that anyone can check instead of a language model's verdict.

Four scores a response, each in [0, 1], each a share of single checks on the trace as it reads.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from diffgr2lib.data.evidence import evidence
from diffgr2lib.data.scorecard import THEMES, Scorecard, best_first, promote
from diffgr2lib.data.types import Example
from diffgr2lib.evaluate.statistics import difference, mean_estimate
from diffgr2lib.report.ladder import SYSTEMS, evaluations, spread
from diffgr2lib.report.trace_reader import ReadTrace, read_trace
from diffgr2lib.text.grammar import LABELS, Grammar

if TYPE_CHECKING:
    from diffgr2lib.run import Run

CRITERIA = {
    "grounding": "History grounding",
    "arithmetic": "Arithmetic and consistency",
    "flow": "Logical flow",
    "identifiers": "Identifiers",
}


def grounding(read: ReadTrace, example: Example) -> float:
    """Mean of one check on the theme and one a candidate.

    Theme: one of the four, and some candidate of the prompt shows what it is named after (a brand
    or category bought before, or a purchase that leads there). Candidate: share of its five
    evidence words (score, follow, complement, category count, brand count) that are the prompt's.
    """
    shares = [
        np.mean([line.evidence.get(letter) == value for letter, value in want.evidence.items()])
        if (line := read.lines.get(k)) is not None
        else 0.0
        for k, want in read.expected.items()
    ]
    return float(np.mean([borne_out(read.parsed.theme, example), *shares]))


def borne_out(theme: str | None, example: Example) -> bool:
    """Whether the prompt shows evidence of the kind that a theme is named after."""
    table = evidence(example)  # rank, score, follow, complement, popularity, category, brand
    columns = {"balanced": None, "brand": [6], "category": [5], "follow": [2, 3]}
    if theme not in THEMES or theme not in columns:
        return False
    chosen = columns[theme]
    return chosen is None or bool((table[:, chosen] > 0).any())


def arithmetic(read: ReadTrace, example: Example, card: Scorecard) -> float:
    """Mean of three shares: points equal to the card's sums under the stated theme; entries of the
    closing list that are the best by the stated points; ranks of the answer that follow them."""
    K, theme = len(example.candidates), read.parsed.theme
    points = [line.points if (line := read.lines.get(k)) else None for k in range(K)]
    sums = 0.0
    if theme in THEMES:
        totals = card.totals(evidence(example), theme)
        sums = float(np.mean([points[k] == totals[k] for k in range(K)]))
    stated = [value for value in points if value is not None]
    if len(stated) < K:
        return sums / 3
    best = [(stated[k], k) for k in best_first(stated)]
    closing = np.mean([n < len(read.best) and read.best[n] == one for n, one in enumerate(best)])
    named = read.parsed.named
    answer = np.mean([n < len(named) and named[n] == k for n, k in enumerate(promote(stated))])
    return float((sums + closing + answer) / 3)


def flow(read: ReadTrace, count: int) -> float:
    """Longest run of parts in the right order, as a share of the count + 3 that belong there."""
    order = ["theme", *LABELS[:count], "best", "answer"]
    tails: list[int] = []
    for place in (order.index(part) for part in read.parts):
        at = bisect_left(tails, place)
        tails[at : at + 1] = [place]
    return len(tails) / len(order)


def identifiers(read: ReadTrace) -> float:
    """Share of names in trace and answer that are a candidate's own; 0 where nothing is named."""
    cited = [line.sid == read.expected[k].sid for k, line in read.lines.items()]
    checks = cited + [k is not None for k in read.parsed.named]
    return float(np.mean(checks)) if checks else 0.0


def scores(text: str, grammar: Grammar, example: Example, card: Scorecard) -> dict[str, float]:
    """All four scores of one response, each from 0 to 1."""
    read = read_trace(text, grammar, example)
    return {
        "grounding": grounding(read, example),
        "arithmetic": arithmetic(read, example, card),
        "flow": flow(read, len(example.candidates)),
        "identifiers": identifiers(read),
    }


def reasoning_table(run: "Run", systems: Sequence[str], ar: str = "ar_sft") -> pd.DataFrame:
    """Table 4 over the test users, one row a system and criterion.

    Columns: system, criterion, n, seeds; score with its 95 % interval; difference: score less the
    AR model's, paired by user, with its interval (empty for the AR model itself).
    """
    found = {name: _scores(run, name) for name in dict.fromkeys([ar, *systems])}
    rows = []
    for name, values in found.items():
        for number, criterion in enumerate(CRITERIA):
            own, base = values[:, :, number], found[ar][:, :, number]  # [seeds, n]
            row: dict[str, Any] = {"system": name, "criterion": criterion, "n": own.shape[1]}
            row |= {"seeds": own.shape[0]} | spread("score", mean_estimate(own))
            against = spread("difference", difference(own, base))
            rows.append(row | (dict.fromkeys(against, np.nan) if name == ar else against))
    return pd.DataFrame(rows)


def _scores(run: "Run", system: str) -> np.ndarray:
    """Scores [seeds, n, 4] of a system's responses to the test users, at the preset's tau."""
    grids = []
    for stages, found in zip(run.ladders.values(), evaluations(run, system), strict=True):
        world, grammar = stages.world, stages.grammar
        pairs = zip(found.texts, world.test, strict=True)
        grids.append([list(scores(text, grammar, e, world.card).values()) for text, e in pairs])
    return np.array(grids)


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """Table 4 for people: one row a criterion, one column a system, intervals in the cells."""
    shown = pd.DataFrame({"criterion": list(CRITERIA.values())})
    for system in dict.fromkeys(table["system"]):
        part, name = table[table["system"] == system], SYSTEMS.get(system, system)
        shown[name] = _cells(part, "score")
        if part["difference"].notna().any():
            shown[f"{name}, less AR"] = _cells(part, "difference", "+")
    return shown


def _cells(part: pd.DataFrame, name: str, sign: str = "") -> list[str]:
    columns = (part[name], part[f"{name}_low"], part[f"{name}_high"])
    return [f"{v:{sign}.3f} [{low:.3f}, {high:.3f}]" for v, low, high in zip(*columns, strict=True)]
