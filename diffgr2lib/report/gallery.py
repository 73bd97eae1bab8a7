"""Many prompts at a glance: thumbnails, sorted by what matters, from which a viewer opens."""

from collections.abc import Sequence
from typing import Any

from diffgr2lib.data.types import Example
from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.errors import ModelError
from diffgr2lib.report.fragment import Fragment
from diffgr2lib.report.lane import Lane
from diffgr2lib.report.markup import shown
from diffgr2lib.report.viewer import TrajectoryViewer
from diffgr2lib.text.grammar import Grammar

CELL, GAP = 10, 2
SORTS = {
    "nfe": "fewest forward passes",
    "slow": "most forward passes",
    "invalid": "invalid first",
    "gain": "rank gained",
    "loss": "rank lost",
}


class Gallery(Fragment):
    """One thumbnail a prompt; opening one shows its viewer.

    trajectories, examples and (if given) ar run in step. source: as for `TrajectoryViewer`.
    """

    def __init__(
        self,
        trajectories: Sequence[Trajectory],
        source: Any,
        examples: Sequence[Example],
        grammar: Grammar,
        ar: Sequence[Trajectory] | None = None,
        *,
        title: str = "Gallery",
        likeliest: bool = False,
    ) -> None:
        others = ar if ar is not None else [None] * len(trajectories)
        if not len(trajectories) == len(examples) == len(others):
            raise ModelError(
                f"The gallery got {len(trajectories)} trajectories, {len(examples)} examples and"
                f" {len(others)} AR trajectories; give one of each a prompt."
            )
        self.title = title
        self.viewers = [
            TrajectoryViewer(
                one, source, example, other, grammar, title=f"User {example.user}",
                likeliest=likeliest, log=False,
            )
            for one, example, other in zip(trajectories, examples, others, strict=True)
        ]  # fmt: skip

    def __repr__(self) -> str:
        """One line a prompt."""
        lines = [f"{self.title}: {len(self.viewers)} prompts"]
        return "\n".join([*lines, *("  " + _caption(one) for one in self.viewers)])

    def body(self) -> str:
        """The markup without style and script."""
        options = "".join(f'<option value="{k}">{v}</option>' for k, v in SORTS.items())
        thumbs = "".join(_thumb(one, number) for number, one in enumerate(self.viewers))
        return (
            '<section class="dgv gallery" data-colour="step"'
            f' aria-label="{shown(self.title)}">'
            f"<h3>{shown(self.title)}</h3>"
            '<p class="sub">Each picture is one response, a row a block, coloured by commit step'
            " (green early, red late). Open one to step through it.</p>"
            '<p class="live" hidden style="margin-top:10px"><label>Sort by'
            f' <select class="sort">{options}</select></label></p>'
            f'<div class="thumbs">{thumbs}</div></section>'
        )


def _caption(viewer: TrajectoryViewer) -> str:
    one, answer = viewer.lane.trajectory, viewer.answer
    text = f"{viewer.title}: {one.length} tokens, NFE {one.nfe}"
    if answer is None:
        return text
    failures = ", ".join(sorted(answer.parsed.failures)) or "valid"
    return f"{text}; {failures}; rank {answer.floor_rank} → {answer.true_rank}"


def _thumb(viewer: TrajectoryViewer, number: int) -> str:
    answer, nfe = viewer.answer, viewer.lane.trajectory.nfe
    assert answer is not None
    gain = answer.floor_rank - answer.true_rank
    keys = {
        "nfe": nfe, "slow": -nfe, "invalid": int(answer.parsed.valid), "gain": -gain, "loss": gain,
        "number": number,
    }  # fmt: skip
    data = " ".join(f'data-{key}="{value}"' for key, value in keys.items())
    failures = ", ".join(sorted(answer.parsed.failures))
    verdict = f'<span class="bad">× {failures}</span>' if failures else "<span>✓ valid</span>"
    return (
        f'<details class="thumb" {data}><summary>{picture(viewer.lane)}<span>'
        f"<b>{shown(viewer.title)}</b> · NFE {nfe}<br>{verdict} · rank {answer.floor_rank} →"
        f" {answer.true_rank}</span></summary>{viewer.body()}</details>"
    )


def picture(lane: Lane) -> str:
    """A finished canvas as a small SVG: one rectangle a token, one row a block."""
    one = lane.trajectory
    B = one.block_size if one.block_size > 1 else 16
    rows = -(-len(one.tokens) // B)
    cells = []
    for place in range(len(one.tokens)):
        row, column = divmod(place, B)
        gone = place >= one.length or one.reveal_step[place] < 0
        name = "gone" if gone else f"s{lane.step_bin(place)}"
        cells.append(
            f'<rect class="{name}" x="{column * CELL}" y="{row * 5}" width="{CELL - GAP / 2:g}"'
            ' height="4"/>'
        )
    return (
        f'<svg viewBox="0 0 {B * CELL} {rows * 5}" preserveAspectRatio="none" role="img"'
        f' aria-label="commit steps, {rows} rows of {B} tokens"'
        f' style="height:{min(110, rows * 5)}px">'
        f"{''.join(cells)}</svg>"
    )
