"""How much is measured at each preset, so that a notebook keeps to its minutes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """batches -> requests timed at each. lossless: users over which outputs are held against AR's.

    prompts, outputs: forced lengths in tokens (`outputs` at `prompt`, `prompts` at `output`).
    widths: widths of the forward-cost tables, over `stored` columns.
    """

    requests: dict[int, int]
    repeats: int
    lossless: int
    prompts: tuple[int, ...]
    outputs: tuple[int, ...]
    prompt: int
    output: int
    widths: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    stored: int = 256


SMALL = Plan(
    requests={1: 2, 4: 4}, repeats=2, lossless=8, prompts=(32, 128), outputs=(32, 64), prompt=64,
    output=32, widths=(1, 16),
)  # fmt: skip
FULL = Plan(
    requests={1: 6, 4: 8, 16: 16, 64: 64}, repeats=3, lossless=512,
    prompts=(32, 128, 512, 1024, 2048, 4096), outputs=(32, 64, 128, 256, 512), prompt=384,
    output=128,
)  # fmt: skip


def plan(quick: bool) -> Plan:
    """The plan of a preset: little for a quick one, the same for all others."""
    return SMALL if quick else FULL
