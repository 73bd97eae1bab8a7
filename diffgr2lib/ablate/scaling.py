"""The ladder at other model sizes and other numbers of training traces."""

from dataclasses import dataclass, replace

from diffgr2lib.config import Preset

RUNGS = ("sft", "no_trace", "cft", "cft_more", "opd", "rl")  # stages that read the training lists


@dataclass(frozen=True, slots=True)
class Point:
    """axis: model or traces. share: of the base's hidden width, or of its traces."""

    axis: str
    share: float
    preset: Preset


def points(preset: Preset, traces: int) -> list[Point]:
    """Smaller models at all traces, and fewer traces for the preset's model; each axis ends in it.

    traces: how many there are. A quick preset has two points an axis, others three.
    """
    found = []
    for share in (0.5, 1.0) if preset.quick else (0.5, 0.75, 1.0):
        found.append(Point("model", share, _narrower(preset, share)))
    for share in (0.25, 1.0) if preset.quick else (1 / 16, 1 / 4, 1.0):
        rows = 0 if share == 1 else max(1, round(share * traces))
        fewer = {name: replace(getattr(preset, name), rows=rows) for name in RUNGS}
        found.append(Point("traces", share, replace(preset, **fewer)))
    return found


def _narrower(preset: Preset, share: float) -> Preset:
    """Width and feed-forward width times share; heads keep their number and become narrower."""
    model, step = preset.model, 2 * preset.model.heads
    hidden = max(step, round(share * model.hidden / step) * step)
    inner = max(8, round(share * model.intermediate))
    return replace(preset, model=replace(model, hidden=hidden, intermediate=inner))
