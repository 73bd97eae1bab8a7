"""The same prompt on several systems, or at several taus, on one clock of forward passes."""

from collections.abc import Mapping

from transformers import PreTrainedTokenizerFast

from diffgr2lib.data.types import Example
from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.errors import ModelError
from diffgr2lib.model.policy import Policy
from diffgr2lib.report.alternatives import alternatives
from diffgr2lib.report.answer import Answer, judge
from diffgr2lib.report.canvas_html import lane_data, lane_figure
from diffgr2lib.report.fragment import COLOURINGS, Fragment, controls, frame, legend
from diffgr2lib.report.lane import Lane, as_tokenizer, check_prompts, make_lane
from diffgr2lib.report.ranking_html import answer_strip
from diffgr2lib.text.grammar import Grammar


class CompareView(Fragment):
    """Several trajectories of one prompt on one clock of forward passes.

    trajectories: name -> trajectory, for instance one a system or one a tau. Every lane after the
    first is compared with the first, and its first differing token is framed. sources: a policy a
    name adds the likeliest tokens. Raises `ModelError` for fewer than two, or different prompts.
    """

    def __init__(
        self,
        trajectories: Mapping[str, Trajectory],
        source: Policy | PreTrainedTokenizerFast,
        example: Example | None = None,
        grammar: Grammar | None = None,
        *,
        title: str = "The same prompt, several systems",
        policies: Mapping[str, Policy] | None = None,
    ) -> None:
        if len(trajectories) < 2:
            raise ModelError("Compare at least two trajectories of one prompt.")
        if (example is None) != (grammar is None):
            raise ModelError("The rankings need both the example and its grammar.")
        check_prompts(list(trajectories.values()))
        tokenizer = as_tokenizer(source)
        first = next(iter(trajectories))
        self.title, self.example = title, example
        self.lanes: list[Lane] = []
        for name, one in trajectories.items():
            policy = (policies or {}).get(name)
            against = None if name == first else trajectories[first]
            found = None if policy is None else alternatives(policy, one)
            self.lanes.append(make_lane(name, one, tokenizer, against, found))
        self.answers: list[Answer | None] = [None] * len(self.lanes)
        if example is not None and grammar is not None:
            self.answers = [
                judge(lane.trajectory, lane.clock, tokenizer, grammar, example)
                for lane in self.lanes
            ]

    def __repr__(self) -> str:
        """One line a system."""
        lines = [f"{self.title}:"]
        for lane, answer in zip(self.lanes, self.answers, strict=True):
            one, at = lane.trajectory, lane.first_difference
            where = "" if at is None else f"; first differs at position {at + 1}"
            said = "" if answer is None else " " + " ".join(answer.sentences)
            lines.append(f"  {lane.name}: {one.length} tokens, NFE {one.nfe}{where}.{said}")
        return "\n".join(lines)

    def body(self) -> str:
        """The markup without style and script."""
        target = -1 if self.example is None else self.example.target
        sizes = [lane.trajectory.block_size for lane in self.lanes]
        lanes = []
        for lane, answer in zip(self.lanes, self.answers, strict=True):
            size = lane.trajectory.block_size
            rows = size if size > 1 else max(8, *sizes)
            strip = "" if answer is None else answer_strip(answer, target)
            lanes.append(lane_figure(lane, rows, strip))
        most = max(lane.trajectory.nfe for lane in self.lanes)
        first = self.lanes[0]
        data = {
            "compare": True,
            "against": first.name,
            "ticks": list(range(most + 1)),
            "later": [],
            "lanes": [lane_data(lane, first) for lane in self.lanes],
        }
        counts = [f"{one.name} {one.trajectory.length} tokens" for one in self.lanes]
        subtitle = (
            f"One clock of forward passes; {first.name} is what the others are compared with."
        )
        return frame(
            self.title,
            subtitle,
            controls(list(COLOURINGS), first.name, False, "forward passes"),
            f"{most} of {most} forward passes: {', '.join(counts)}",
            lanes,
            "",
            legend(first.name, True),
            "",
            data,
            max(8, *sizes),
        )
