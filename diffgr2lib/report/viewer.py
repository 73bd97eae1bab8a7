"""See a response being denoised: the trajectory viewer.

It is one HTML fragment: a static part that reads without scripts, and a script of its own that adds
stepping. No widget package, kernel or host is needed to look at one.
"""

from functools import cached_property
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from diffgr2lib.data.types import Example
from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.errors import ModelError
from diffgr2lib.model.policy import Policy
from diffgr2lib.report.alternatives import alternatives
from diffgr2lib.report.answer import Answer, judge
from diffgr2lib.report.canvas_html import lane_data, lane_figure, log_table
from diffgr2lib.report.clock import status
from diffgr2lib.report.denoising import canvas_figure
from diffgr2lib.report.figures import METADATA
from diffgr2lib.report.fragment import COLOURINGS, Fragment, controls, frame, legend
from diffgr2lib.report.lane import as_tokenizer, check_prompts, make_lane
from diffgr2lib.report.ranking_html import ranking
from diffgr2lib.text.grammar import Grammar

AR_ROW = 16  # tokens in a row where there are no blocks


class TrajectoryViewer(Fragment):
    """One trajectory: its canvas by blocks, the ranking that it ends with, every token's details.

    source: the policy that decoded it, or a tokenizer. With a policy the five likeliest tokens
    behind each commit are computed by replay (likeliest=False leaves them out). example and
    grammar, given together, add the ranking panel. ar: the AR model's trajectory on the same
    prompt, shown on the same clock of forward passes. Raises `ModelError` where ar answers another
    prompt, or source is neither policy nor tokenizer.
    """

    def __init__(
        self,
        trajectory: Trajectory,
        source: Any,
        example: Example | None = None,
        ar: Trajectory | None = None,
        grammar: Grammar | None = None,
        *,
        title: str = "Denoising trajectory",
        name: str = "diffusion",
        ar_name: str = "AR",
        likeliest: bool = True,
        log: bool = True,
    ) -> None:
        if (example is None) != (grammar is None):
            raise ModelError("The ranking panel needs both the example and its grammar.")
        if ar is not None:
            check_prompts([trajectory, ar])
        tokenizer = as_tokenizer(source)
        found = None
        if likeliest and isinstance(source, Policy):
            found = alternatives(source, trajectory)
        self.title, self.log, self.example = title, log, example
        self.lane = make_lane(name, trajectory, tokenizer, ar, found)
        self.ar = None if ar is None else make_lane(ar_name, ar, tokenizer)
        self.answer: Answer | None = None
        if example is not None and grammar is not None:
            self.answer = judge(trajectory, self.lane.clock, tokenizer, grammar, example)

    @cached_property
    def steps(self) -> int:
        """Number of denoising steps."""
        return self.lane.clock.steps

    def status(self, step: int) -> str:
        """The counts at a step (0 to `steps`) in words."""
        return status(self.lane.trajectory, self.lane.clock, step)

    def __repr__(self) -> str:
        """Two lines for a terminal or log."""
        one = self.lane.trajectory
        said = " ".join(self.answer.sentences) if self.answer else ""
        return (
            f"{self.title}: {one.length} tokens in {one.nfe} forward passes"
            f" (TPF {one.length / one.nfe:.2f}), {self.steps} steps,"
            f" {len(self.lane.clock.last)} blocks of {one.block_size}. {said}"
        ).strip()

    def body(self) -> str:
        """The markup without style and script."""
        lane, ar, size = self.lane, self.ar, self.lane.trajectory.block_size
        rows = size if size > 1 else AR_ROW
        lanes = [lane_figure(lane, rows)]
        later: list[int] = []
        if ar is not None:
            lanes.append(lane_figure(ar, rows))
            later = [p for p in ar.clock.passes if p > lane.clock.passes[-1]]
        side = ""
        if self.answer is not None and self.example is not None:
            side = ranking(self.answer, self.example)
        other = "the other" if ar is None else ar.name
        kinds = [kind for kind in COLOURINGS if kind != "agreement" or ar is not None]
        data = {
            "compare": False,
            "against": other,
            "ticks": lane.clock.passes,
            "later": later,
            "lanes": [lane_data(lane, ar)] + ([] if ar is None else [lane_data(ar, None)]),
        }
        return frame(
            self.title,
            self.subtitle,
            controls(kinds, other, bool(later), "denoising step"),
            self.status(self.steps),
            lanes,
            side,
            legend(other, ar is not None),
            log_table(lane) if self.log else "",
            data,
            rows,
        )

    @property
    def subtitle(self) -> str:
        """Tokens, passes and TPF in a sentence."""
        one = self.lane.trajectory
        text = (
            f"{one.length} tokens in {one.nfe} forward passes: {one.length / one.nfe:.2f} tokens a"
            f" pass (TPF), blocks of {one.block_size}"
        )
        if self.ar is None:
            return text + "."
        other = self.ar.trajectory
        return f"{text}. {self.ar.name}: {other.length} tokens in {other.nfe}."

    def figure(self, step: int | None = None, colour: str = "step") -> Figure:
        """The canvas at a step (None: finished) as a matplotlib figure; colour step, confidence or
        agreement."""
        return canvas_figure(self.lane, self.steps if step is None else step, colour, self.title)

    def to_png(self, path: str | Path, step: int | None = None, colour: str = "step") -> Path:
        """Write `figure` as a PNG of the same bytes each time."""
        path = Path(path)
        self.figure(step, colour).savefig(
            path, dpi=160, metadata=METADATA["png"], facecolor="white"
        )
        return path
