"""The ablations' figures: data in, matplotlib figure out."""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from diffgr2lib.report.ablations import LEVEL
from diffgr2lib.report.figures import PALETTE
from diffgr2lib.report.plots import MARKERS

LABELS = {"valid": "valid answers", "recall@1": "Recall@1", "ndcg@3": "NDCG@3"}


def departures(table: pd.DataFrame, metric: str = "valid") -> Figure:
    """Each cell's difference to the cell it departs from, a panel a tau, families apart.

    Filled red diamonds hold after Holm's correction over the whole table; open dots do not.
    """
    compared = table[table[f"{metric}_p"].notna()]
    names = list(dict.fromkeys(compared["cell"]))
    taus = list(dict.fromkeys(compared["tau"]))
    over = compared.groupby("cell", sort=False)["over"].first()
    fig, axes = plt.subplots(
        1, len(taus), figsize=(2.6 * len(taus) + 4.2, 0.27 * len(names) + 1.1), sharey=True,
        squeeze=False, layout="constrained",
    )  # fmt: skip
    places = np.arange(len(names))[::-1]
    families = compared.groupby("cell", sort=False)["family"].first()
    for axis, tau in zip(axes[0], taus, strict=True):
        part = compared[compared["tau"] == tau].set_index("cell").loc[names]
        value, low, high = (part[f"{metric}_gain{end}"].to_numpy() for end in ("", "_low", "_high"))
        for n, p in enumerate(part[f"{metric}_p"]):
            held = p < LEVEL
            axis.errorbar(
                value[n], places[n], xerr=[[value[n] - low[n]], [high[n] - value[n]]],
                fmt="D" if held else "o", color=PALETTE[3 if held else 0], capsize=2, ms=5,
                mfc=PALETTE[3] if held else "white",
            )  # fmt: skip
        axis.axvline(0, color="0.4", linestyle=":", linewidth=1, zorder=0)
        for n in range(1, len(names)):
            if families[names[n]] != families[names[n - 1]]:
                axis.axhline(places[n] + 0.5, color="0.8", linewidth=0.8, zorder=0)
        axis.set(title=f"tau {tau:g}", xlabel=f"{LABELS[metric]}, difference (95 %)")
        axis.grid(axis="y", visible=False)
    axes[0, 0].set_yticks(places, [f"{name}  |  {over[name]}" for name in names])
    axes[0, 0].set_ylim(-0.7, len(names) - 0.3)
    return fig


def curves(table: pd.DataFrame) -> Figure:
    """Validity, Recall@1, NDCG@3 and tokens a pass against tau, a line a cell, 95 % bands."""
    panels = {**LABELS, "tpf": "tokens a pass"}
    fig, axes = plt.subplots(1, len(panels), figsize=(11, 2.9), layout="constrained")
    for axis, (metric, label) in zip(axes, panels.items(), strict=True):
        for (name, part), color, marker in zip(
            table.groupby("cell", sort=False), PALETTE, MARKERS, strict=False
        ):
            part = part.sort_values("tau")
            axis.plot(
                part["tau"], part[metric], color=color, marker=marker, ms=4, lw=1.3, label=name
            )
            if f"{metric}_low" in part:
                low, high = part[f"{metric}_low"], part[f"{metric}_high"]
                axis.fill_between(part["tau"], low, high, color=color, alpha=0.15, lw=0)
        axis.set(xlabel="tau", ylabel=label)
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return fig


def failures(table: pd.DataFrame) -> Figure:
    """Share of answers with each failure type against tau, a panel a cell."""
    kinds = {"duplicate": "duplicate", "omission": "omission", "malformed": "malformed"}
    kinds["out_of_set"] = "out-of-set"
    cells = list(dict.fromkeys(table["cell"]))
    fig, axes = plt.subplots(
        1, len(cells), figsize=(2.9 * len(cells) + 0.6, 2.8), sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axis, name in zip(axes[0], cells, strict=True):
        part = table[table["cell"] == name].sort_values("tau")
        for (kind, label), color, marker in zip(
            kinds.items(), PALETTE[1:], MARKERS[1:], strict=False
        ):
            ring = {"mfc": "none", "ms": 9} if kind == "omission" else {"ms": 4}
            axis.plot(
                part["tau"], part[kind], color=color, marker=marker, lw=1.2, label=label, **ring
            )
        axis.set(title=name, xlabel="tau")
    axes[0, 0].set_ylabel("share of answers")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return fig


def decoders(table: pd.DataFrame) -> Figure:
    """Valid answers against tokens a pass: one mark a decoder, its taus joined."""
    fig, axis = plt.subplots(figsize=(6.6, 3.6), layout="constrained")
    kinds = [name.split(",")[0] for name in table["decoder"]]
    marks = "osD^vPX*h<"
    for n, kind in enumerate(dict.fromkeys(kinds)):
        part = table[[one == kind for one in kinds]].sort_values("tpf")
        error = [part["valid"] - part["valid_low"], part["valid_high"] - part["valid"]]
        axis.errorbar(
            part["tpf"], part["valid"], yerr=error, label=kind, color=PALETTE[n % len(PALETTE)],
            marker=marks[n % len(marks)], ms=5, lw=1, capsize=2, ls="-" if n < 8 else "--",
        )  # fmt: skip
    axis.set(xlabel="tokens per forward pass (TPF)", ylabel="valid answers")
    axis.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return fig


def bias(table: pd.DataFrame) -> Figure:
    """The enumerable world: valid mass of the exact law and of mean-field, and the bias."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(7.4, 2.9), layout="constrained")
    left.plot(table["tau"], table["valid"], color=PALETTE[0], marker="o", label="exact (replay)")
    left.plot(
        table["tau"], table["valid_mean_field"], color=PALETTE[3], marker="D", ls="--",
        label="mean-field",
    )  # fmt: skip
    left.set(xlabel="tau", ylabel="probability of valid orders", ylim=(-0.03, 1.03))
    left.legend(frameon=False)
    right.plot(table["tau"], table["bias"], color=PALETTE[3], marker="D")
    right.axhline(0, color="0.4", linestyle=":", linewidth=1)
    right.set(xlabel="tau", ylabel="bias of mean-field (nats)")
    return fig


def learning(table: pd.DataFrame) -> Figure:
    """Validity and NDCG@3 on validation users against compute, a line a cell and seed."""
    panels = {"valid": "valid answers", "ndcg@3": "NDCG@3", "tpf": "tokens a pass"}
    fig, axes = plt.subplots(1, len(panels), figsize=(9.4, 2.9), layout="constrained")
    for axis, (metric, label) in zip(axes, panels.items(), strict=True):
        for (name, part), color, marker in zip(
            table.groupby("cell", sort=False), PALETTE, MARKERS, strict=False
        ):
            for n, (_, run) in enumerate(part.groupby("seed")):
                axis.plot(
                    run["columns_m"], run[metric], color=color, marker=marker, ms=4, lw=1.1,
                    label=name if n == 0 else None,
                )  # fmt: skip
        axis.set(xlabel="million columns since SFT", ylabel=label)
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return fig


def scaling(table: pd.DataFrame) -> Figure:
    """Recall@1 and validity against model size and number of traces, a line a system."""
    axes_of = {"model": "parameters", "traces": "share of the traces"}
    fig, grid = plt.subplots(2, 2, figsize=(7.6, 5.2), sharey="row", layout="constrained")
    for column, (axis_name, label) in enumerate(axes_of.items()):
        for row, metric in enumerate(("recall@1", "valid")):
            axis = grid[row, column]
            part = table[table["axis"] == axis_name]
            for (name, line), color, marker in zip(
                part.groupby("system", sort=False), PALETTE, MARKERS, strict=False
            ):
                x = line["parameters"] if axis_name == "model" else line["share"]
                axis.plot(x, line[metric], color=color, marker=marker, ms=4, lw=1.2, label=name)
                low, high = line[f"{metric}_low"], line[f"{metric}_high"]
                axis.fill_between(x, low, high, color=color, alpha=0.12, lw=0)
            axis.set_xscale("log")
            axis.set(xlabel=label if row else "", ylabel="" if column else LABELS[metric])
    handles, labels = grid[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return fig
