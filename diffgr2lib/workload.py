"""The plan of a run before it begins: steps, tokens, memory and hours of each stage."""

from dataclasses import dataclass

from diffgr2lib.config import Preset, StageTrain
from diffgr2lib.footprint import MIB, PARTS, Layout, footprint
from diffgr2lib.recipes import RECIPES

BACKWARD = 3  # a training pass costs about three forward passes


@dataclass(frozen=True, slots=True)
class Workload:
    """Of a whole stage. tokens: columns that go through forward and backward, a rollout's columns
    counted as a third; decoding is counted at one token a pass, its slowest."""

    steps: int
    tokens: float

    def hours(self, tokens_per_s: float, processes: int) -> float:
        """Hours at a training throughput of each device."""
        return self.tokens / (tokens_per_s * processes) / 3600


def workload(preset: Preset, stage: str, columns: int, prompt: int) -> Workload:
    """Columns of one row's training pass, and the prompt's, give the tokens of all steps."""
    recipe = RECIPES[stage]
    train: StageTrain = getattr(preset, recipe.train)
    rows: float = train.batch
    rolled = 0.0
    if "decode" in recipe.options:
        samples = preset.distillation.samples
        rows *= preset.reinforcement.group if "reinforcement" in recipe.options else samples
        width = 1 if stage == "ar" else preset.diffusion.block_size
        rolled = (prompt + preset.decode.max_new_tokens * width) / BACKWARD
    return Workload(train.steps, train.steps * rows * (columns + rolled))


def table(
    preset: Preset,
    stages: list[str],
    layout: Layout,
    prompt_tokens: int | None,
    tokens_per_s: float | None = None,
) -> str:
    """Steps, tokens, memory a device and (at a throughput a device) hours of stages, as text."""
    names = (*PARTS, "total")
    found = {stage: footprint(preset, stage, layout, prompt_tokens) for stage in stages}
    how = f"sharded by {layout.sharded}" if layout.sharded else "whole on each device"
    lines = [
        f"{preset.name}: {next(iter(found.values())).parameters:,} parameters, {how};"
        f" processes: {layout.processes}; MiB a device:",
        f"{'stage':<12}{'rows x columns':>16}"
        + "".join(f"{name:>13}" for name in names)
        + f"{'steps':>8}{'M tokens':>12}"
        + (f"{'hours':>10}" if tokens_per_s else ""),
    ]
    hours = 0.0
    for stage, one in found.items():
        cells = "".join(f"{getattr(one, name) / MIB:>13,.1f}" for name in names)
        whole = workload(preset, stage, one.columns, one.prompt)
        cells += f"{whole.steps:>8,}{whole.tokens / 1e6:>12,.1f}"
        if tokens_per_s:
            hours += whole.hours(tokens_per_s, layout.processes)
            cells += f"{whole.hours(tokens_per_s, layout.processes):>10,.2f}"
        lines.append(f"{stage:<12}{f'{one.rows} x {one.columns}':>16}{cells}")
    if tokens_per_s:
        lines.append(
            f"{hours:,.1f} hours in all at {tokens_per_s:g} training tokens/s a device; rollouts"
            " counted at one token a pass, evaluations left out"
        )
    return "\n".join(lines)
