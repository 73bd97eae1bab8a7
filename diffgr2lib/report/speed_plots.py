"""The throughput notebook's figures: data in, matplotlib figure out."""

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from diffgr2lib.report.figures import PALETTE
from diffgr2lib.report.plots import MARKERS


def _band(axis: Axes, x: str, y: str, part: pd.DataFrame, number: int, label: str) -> None:
    color, marker = PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)]
    axis.plot(part[x], part[y], color=color, marker=marker, label=label)
    axis.fill_between(part[x], part[f"{y}_low"], part[f"{y}_high"], color=color, alpha=0.15, lw=0)


def speedup_by_length(table: pd.DataFrame) -> Figure:
    """Figure 6: speed-up at batch 1 against output length (left) and prompt length (right)."""
    fig, axes = plt.subplots(1, 2, figsize=(7.0, 3.0), sharey=True, layout="constrained")
    for axis, name in zip(axes, ("output", "prompt"), strict=True):
        rows = table[table["axis"] == name]
        for number, (rate, part) in enumerate(rows.groupby("forced_tpf")):
            _band(axis, name, "speedup", part, number, f"{rate} tokens committed a pass")
        other = "prompt" if name == "output" else "output"
        axis.set_xscale("log", base=2)
        axis.set_xticks(sorted(set(rows[name])), [str(n) for n in sorted(set(rows[name]))])
        axis.minorticks_off()
        axis.axhline(1, color="0.5", lw=1, ls=":")
        axis.set_xlabel(f"{name} tokens (forced; {other} {rows[other].iloc[0]})")
    axes[0].set_ylabel("speed-up over AR, batch 1")
    axes[0].set_ylim(bottom=0)
    axes[0].legend(frameon=False, fontsize="small")
    return fig


def speedup_by_batch(table: pd.DataFrame) -> Figure:
    """Speed-up of each mode over AR against the batch size, with the line at 1."""
    fig, axis = plt.subplots(figsize=(4.8, 3.1), layout="constrained")
    shown = table[table["mode"].isin(("block", "speculative"))]
    names = shown["mode"].where(shown["tau"].isna(), "block, tau " + shown["tau"].astype(str))
    for number, (name, part) in enumerate(shown.groupby(names, sort=False)):
        _band(axis, "batch", "speedup", part, number, str(name))
    axis.axhline(1, color="0.5", lw=1, ls=":")
    axis.set_xscale("log", base=2)
    axis.set_xticks(sorted(set(table["batch"])), [str(n) for n in sorted(set(table["batch"]))])
    axis.minorticks_off()
    axis.set(xlabel="batch (rows decoded side by side)", ylabel="speed-up over AR")
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False, fontsize="small")
    return fig


def width_ratios(table: pd.DataFrame) -> Figure:
    """Cost of a pass over that of a 1-wide pass, against width: one line a model and threads."""
    fig, axis = plt.subplots(figsize=(4.8, 3.1), layout="constrained")
    for number, ((model, threads), part) in enumerate(table.groupby(["model", "threads"])):
        _band(axis, "width", "ratio", part, number, f"{model}, {threads} threads")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)
    axis.set_xticks(sorted(set(table["width"])), [str(n) for n in sorted(set(table["width"]))])
    axis.minorticks_off()
    axis.set(xlabel="width of the pass (columns)", ylabel="cost over a 1-wide pass")
    axis.legend(frameon=False, fontsize="small")
    return fig
