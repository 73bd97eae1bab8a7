"""A lane as HTML that reads without scripts: its canvas, its steps as a table, its data."""

from html import escape
from typing import Any

from diffgr2lib.report.clock import block_tpf, status
from diffgr2lib.report.lane import Lane
from diffgr2lib.report.markup import shown


def lane_figure(lane: Lane, rows: int, below: str = "") -> str:
    """A lane with its name, its progress, its canvas (`rows` tokens a row), and HTML below it."""
    one = lane.trajectory
    count = f"{one.length} of {one.length} tokens, {one.nfe} forward passes, finished"
    return (
        f'<figure class="lane"><figcaption><span class="name">{shown(lane.name)}</span>'
        f' <span class="count">{count}</span></figcaption>'
        f'<div class="bar" aria-hidden="true"><i></i></div>{canvas(lane, rows)}{below}</figure>'
    )


def canvas(lane: Lane, rows: int) -> str:
    """A lane's finished canvas, `rows` tokens to a row, as a grid of cells."""
    blocks, kind = [], "block plain" if lane.trajectory.block_size == 1 else "block"
    for start in range(0, len(lane.words), rows):
        stop = min(start + rows, len(lane.words))
        cells = " ".join(_cell(lane, place) for place in range(start, stop))
        head = _head(lane, start // rows, start, stop)
        blocks.append(
            f'<div class="{kind}" role="row" data-block="{start // rows}">{head}'
            f'<span class="cells" role="presentation">{cells}</span></div>'
        )
    label = f"{shown(lane.name)}: tokens in rows of {rows}"
    return f'<div class="canvas" role="grid" aria-label="{label}">{"".join(blocks)}</div>'


def _head(lane: Lane, number: int, start: int, stop: int) -> str:
    if lane.trajectory.block_size == 1:
        return f'<span class="head" role="rowheader"><b>{start + 1}–{stop}</b></span> '
    tpf = block_tpf(lane.trajectory)[number]
    first = lane.clock.last[number - 1] if number else 0
    steps = lane.clock.last[number] - first
    word = "step" if steps == 1 else "steps"
    return (
        f'<span class="head" role="rowheader"><b>block {number + 1}</b> {steps} {word},'
        f" TPF&nbsp;{tpf:.1f}</span> "
    )


def _cell(lane: Lane, place: int) -> str:
    one, agrees = lane.trajectory, lane.agrees[place]
    never, cut = one.reveal_step[place] < 0, place >= one.length
    names = ["t", f"s{lane.step_bin(place)}", f"c{lane.confidence_bin(place)}"]
    names.append("a2" if agrees is None else f"a{int(agrees)}")
    names += ["never"] if never else ["cut"] if cut else []
    if agrees is False:
        names.append("differs")
        names += ["first"] if place == lane.first_difference else []
    mark = "" if agrees is None else "=" if agrees else "≠"
    step = str(one.reveal_step[place] + 1) if one.block_size > 1 else ""
    return (
        f'<span class="{" ".join(names)}" role="gridcell" tabindex="-1"'
        f' data-s="{step}" data-c="{decimal(one.confidence[place])}"'
        f' data-a="{mark}"><bdi>{escape(lane.words[place])}</bdi></span>'
    )


def decimal(value: float) -> str:
    """A probability in two digits, never rounded up to 1: ``.93``, ``.99``, ``1``."""
    return "1" if value >= 0.9995 else f"{min(value, 0.99):.2f}"[1:]


def log_table(lane: Lane) -> str:
    """Every denoising step as a row of a table: block, what was committed, masked left, NFE."""
    rows = []
    for step in range(1, lane.clock.steps + 1):
        words = [
            f"<bdi>{escape(lane.words[place])}</bdi>"
            for place, own in enumerate(lane.clock.step)
            if own == step
        ]
        said = status(lane.trajectory, lane.clock, step).split(", ")
        block, masked = said[1].split()[1], said[2].split()[0]
        rows.append(
            f'<tr><td>{step}</td><td>{block}</td><td class="words">{" &nbsp;".join(words)}</td>'
            f"<td>{masked}</td><td>{lane.clock.passes[step]}</td></tr>"
        )
    head = "<tr><th>step</th><th>block</th><th>committed</th><th>masked left</th><th>NFE</th></tr>"
    return (
        f'<details class="log"><summary>Every step as a table ({shown(lane.name)})</summary>'
        f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table></details>"
    )


def lane_data(lane: Lane, against: Lane | None) -> dict[str, Any]:
    """What the script needs of a lane beside its markup."""
    one, found = lane.trajectory, lane.alternatives
    top = None
    if found is not None and lane.vocabulary is not None:
        top = [[[lane.vocabulary[t], round(p, 4)] for t, p in row] for row in found.top]
    return {
        "name": lane.name,
        "B": one.block_size,
        "length": one.length,
        "words": lane.words,
        "steps": lane.clock.step,
        "reveal": one.reveal_step,
        "last": lane.clock.last,
        "passes": lane.clock.passes,
        "confidence": [round(value, 4) for value in one.confidence],
        "logp": [round(value, 4) for value in one.log_probability],
        "other": [_other(lane, against, place) for place in range(len(lane.words))],
        "top": top,
    }


def _other(lane: Lane, against: Lane | None, place: int) -> str | bool | None:
    """True: the same token; the other lane's word, "" where it has none; None: no other lane."""
    agrees = lane.agrees[place]
    if against is None or agrees is None or agrees:
        return agrees
    return against.words[place] if place < against.trajectory.length else ""
