"""Denoising as still pictures: a canvas at a step, position by step, tokens per pass by block."""

from collections.abc import Mapping
from functools import cache

import numpy as np
from matplotlib import font_manager, ft2font
from matplotlib import pyplot as plt
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.errors import ConfigError
from diffgr2lib.report.alternatives import Alternatives
from diffgr2lib.report.clock import block_tpf, read_clock, status
from diffgr2lib.report.figures import PALETTE
from diffgr2lib.report.lane import Lane
from diffgr2lib.report.palette import AGREEMENT, CONFIDENCE, LIGHT, STEPS

MONO = "DejaVu Sans Mono"
WIDTH = 1.02  # inches of a cell
HEIGHT = 0.27
LETTERS = 11  # that fit into a cell


def heatmap(trajectory: Trajectory, replayed: Alternatives) -> Figure:
    """Top-1 confidence of every masked position at every step, over the whole response.

    Blue lines part the blocks; a black step line runs below each position's commit, so what lies
    under it has been committed, and what is white has not begun.
    """
    clock, B = read_clock(trajectory), trajectory.block_size
    L, S = len(trajectory.tokens), clock.steps
    grid = np.full((S, L), np.nan)  # row s - 1 is step s of the clock
    begin = 0
    for block, last in enumerate(clock.last):
        columns = slice(block * B, (block + 1) * B)
        grid[begin:last, columns] = replayed.confidence[: last - begin, columns]
        begin = last
    committed = np.array([step or S for step in clock.step])
    done = np.arange(1, S + 1)[:, None] > committed[None]
    fig, axis = plt.subplots(figsize=(7.2, min(5.2, 1.6 + 0.055 * S)), layout="constrained")
    extent = (0.5, L + 0.5, S + 0.5, 0.5)
    grey = np.where(done, 0.0, np.nan)
    axis.imshow(grey, cmap=ListedColormap(["#e6e9ee"]), aspect="auto", extent=extent, vmin=0)
    image = axis.imshow(
        grid, cmap="cividis", vmin=0, vmax=1, aspect="auto", extent=extent, interpolation="nearest"
    )
    edges = np.concatenate([[0.5], np.repeat(np.arange(1, L) + 0.5, 2), [L + 0.5]])
    axis.plot(edges, np.repeat(committed + 0.5, 2), color="black", lw=1.1)
    for block in range(1, len(clock.last)):
        axis.axvline(block * B + 0.5, color=PALETTE[0], lw=0.7)
    axis.axvline(trajectory.length + 0.5, color="black", lw=0.8, ls=":")
    axis.set(xlabel="response position (dotted: the end token)", ylabel="denoising step")
    axis.grid(False)
    fig.colorbar(image, ax=axis, label="confidence while masked", pad=0.015)
    return fig


def replay_error(trajectory: Trajectory, replayed: Alternatives) -> float:
    """Largest difference between recorded and replayed confidence over all commits, 0 to 1."""
    return max(
        abs(sure - replayed.confidence[step, place])
        for place, (step, sure) in enumerate(
            zip(trajectory.reveal_step, trajectory.confidence, strict=True)
        )
        if step >= 0
    )


def tpf_by_block(trajectories: Mapping[str, Trajectory]) -> Figure:
    """Response tokens per forward pass of each block, one line a trajectory."""
    fig, axis = plt.subplots(figsize=(6.2, 2.7), layout="constrained")
    for (name, one), color, marker in zip(trajectories.items(), PALETTE, "osD^vPX*", strict=False):
        rates = block_tpf(one)
        axis.plot(np.arange(1, len(rates) + 1), rates, color=color, marker=marker, ms=4, label=name)
    axis.axhline(1, color="0.4", lw=0.9, ls=":")
    axis.set(xlabel="block", ylabel="tokens per forward pass", ylim=(0, None))
    fig.legend(loc="outside lower center", ncols=4, frameon=False)
    return fig


def canvas_figure(lane: Lane, step: int, colour: str, title: str) -> Figure:
    """A lane at one step of its clock (0 to S), a row of cells for each block."""
    if colour not in ("step", "confidence", "agreement"):
        raise ConfigError(f"colour is {colour!r}; give 'step', 'confidence' or 'agreement'.")
    clock, one = lane.clock, lane.trajectory
    if not 0 <= step <= clock.steps:
        raise ConfigError(f"step is {step}; this trajectory has steps 0 to {clock.steps}.")
    B = one.block_size if one.block_size > 1 else 8
    rows, active = -(-len(one.tokens) // B), clock.block(step)
    fig, axis = plt.subplots(figsize=(B * WIDTH + 0.8, rows * HEIGHT + 0.75))
    fig.subplots_adjust(0.005, 0.01, 0.995, 1 - 0.62 / (rows * HEIGHT + 0.75))
    for place, own in enumerate(clock.step):
        row, column = divmod(place, B)
        out = 0 < own <= step
        waiting = not out and (one.block_size == 1 or row > active)
        kept = out and place < one.length
        face = (
            _colour(lane, place, colour) if kept else "white" if out or waiting else LIGHT["trough"]
        )
        axis.add_patch(
            Rectangle(
                (column + 0.03, row + 0.09), 0.94, 0.82, facecolor=face, lw=0.7,
                edgecolor=LIGHT["ink"] if out and own == step else LIGHT["line"],
                hatch=None if out or waiting else "/////", ls=":" if waiting else "-",
            )
        )  # fmt: skip
        if out:
            now = own == step
            axis.text(
                column + 0.5, row + 0.53, drawable(lane.words[place]), ha="center", va="center",
                family=MONO, fontsize=7, weight="bold" if now else "normal", parse_math=False,
                color=LIGHT["ink"] if kept else LIGHT["edge"],
            )  # fmt: skip
            if now:
                axis.plot(
                    [column + 0.14, column + 0.86], [row + 0.84] * 2, color=LIGHT["ink"], lw=1.1
                )
    for row in range(rows):
        axis.text(
            -0.08, row + 0.53, str(row + 1), ha="right", va="center", fontsize=7.5, color="0.35"
        )
    axis.set(xlim=(-0.55, B), ylim=(rows, 0))
    axis.axis("off")
    fig.text(0.008, 0.985, title, va="top", fontsize=10, weight="bold", parse_math=False)
    fig.text(
        0.008, 1 - 0.33 / (rows * HEIGHT + 0.75), status(one, clock, step), va="top", fontsize=8.5
    )
    return fig


def _colour(lane: Lane, place: int, colour: str) -> str:
    if colour == "step":
        return STEPS[lane.step_bin(place)]
    if colour == "confidence":
        return CONFIDENCE[lane.confidence_bin(place)]
    agrees = lane.agrees[place]
    return AGREEMENT[2 if agrees is None else int(agrees)]


@cache
def _known_marks() -> frozenset[int]:
    path = font_manager.findfont(MONO)
    return frozenset(ft2font.FT2Font(path).get_charmap())


def drawable(word: str) -> str:
    """A token that fits a cell; characters that the figure's font lacks become their code."""
    known = _known_marks()
    text = "".join(mark if ord(mark) in known else f"U+{ord(mark):X}" for mark in word)
    return text if len(text) <= LETTERS else text[: LETTERS - 1] + "…"
