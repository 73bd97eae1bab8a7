"""The ladder's figures: one function a picture, data in, matplotlib figure out."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from diffgr2lib.report.figures import PALETTE
from diffgr2lib.report.ladder import SYSTEMS, TEACHER
from diffgr2lib.train.loop import History

KINDS = {
    "duplicate": "duplicate",
    "omission": "omission",
    "out_of_set": "out-of-set",
    "malformed": "malformed",
}
MARKERS = "osD^v"


def ladder(table: pd.DataFrame, metric: str = "recall@1", label: str = "Recall@1") -> Figure:
    """A dot and a 95 % interval for each system of table 2, with lines at the floor and at AR."""
    fig, axis = plt.subplots(figsize=(6.2, 0.42 * len(table) + 1.1), layout="constrained")
    places = np.arange(len(table))[::-1]
    value, low, high = (table[f"{metric}{end}"].to_numpy() for end in ("", "_low", "_high"))
    axis.errorbar(
        value, places, xerr=[value - low, high - value], fmt="o", color=PALETTE[0], capsize=3
    )
    for system, style in (("floor", ":"), (TEACHER, "--")):
        for at in table.loc[table["system"] == system, metric]:
            axis.axvline(at, color="0.5", linestyle=style, linewidth=1, zorder=0)
    axis.set_yticks(places, [SYSTEMS[name] for name in table["system"]])
    axis.set_ylim(-0.6, len(table) - 0.4)
    axis.set_xlabel(f"{label} on test users (95 % interval; dotted: floor, dashed: AR)")
    return fig


def validity(table: pd.DataFrame) -> Figure:
    """Valid share with its band, and each failure type, against tau; one panel a system."""
    systems = list(dict.fromkeys(table["system"]))
    fig, axes = plt.subplots(
        1, len(systems), figsize=(3.3 * len(systems) + 0.6, 3.1), sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axis, system in zip(axes[0], systems, strict=True):
        part = table[table["system"] == system].sort_values("tau")
        axis.plot(part["tau"], part["valid"], color=PALETTE[0], marker="o", label="valid", lw=2)
        axis.fill_between(
            part["tau"], part["valid_low"], part["valid_high"], color=PALETTE[0], alpha=0.2, lw=0
        )
        for (column, name), color, marker in zip(
            KINDS.items(), PALETTE[1:], MARKERS[1:], strict=False
        ):
            # a duplicate leaves a candidate out: rings show what lies underneath
            ring = {"mfc": "none", "ms": 9} if column == "omission" else {}
            axis.plot(
                part["tau"], part[column], color=color, marker=marker, label=name, ls="--", lw=1.2,
                **ring,
            )  # fmt: skip
        axis.set(title=SYSTEMS[system], xlabel="tau (1.0: one token a step)", ylim=(-0.03, 1.03))
        axis.set_xticks(part["tau"])
    axes[0, 0].set_ylabel("share of answers")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    return fig


def curves(histories: Mapping[str, Sequence[History]], fields: Mapping[str, str]) -> Figure:
    """Training curves: one panel a field (log name -> label), a line for each stage and seed."""
    columns = len(fields) if len(fields) <= 4 else 3
    rows = -(-len(fields) // columns)
    fig, axes = plt.subplots(
        rows, columns, figsize=(3.1 * columns, 2.7 * rows), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(fields) :]:
        axis.set_axis_off()
    for axis, (name, label) in zip(axes.flat, fields.items(), strict=False):
        for (stage, runs), color, marker in zip(histories.items(), PALETTE, MARKERS, strict=False):
            for number, history in enumerate(runs):
                points = [(record["step"], record[name]) for record in history if name in record]
                if points:
                    x, y = zip(*points, strict=True)
                    axis.plot(
                        x, y, color=color, marker=marker, ms=3, lw=1.2,
                        label=stage if number == 0 else None,
                    )  # fmt: skip
        axis.set(xlabel="optimizer step", ylabel=label)
        if name.startswith("valid"):
            axis.set_ylim(-0.03, 1.03)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(frameon=False, fontsize="small")
    return fig


def frontier(table: pd.DataFrame) -> Figure:
    """Valid share against tokens per forward pass, one line a system; numbers are tau.

    Where the naive conversion flattens all others, they are drawn again on a scale of their own.
    """
    systems = list(dict.fromkeys(table["system"]))
    trained = [name for name in systems if name != "naive"]
    panels = [systems, trained] if 0 < len(trained) < len(systems) else [systems]
    fig, axes = plt.subplots(
        1, len(panels), figsize=(1 + 3.8 * len(panels), 3.4), layout="constrained", squeeze=False
    )
    style = dict(zip(systems, zip(PALETTE, MARKERS, strict=False), strict=False))
    for axis, shown in zip(axes[0], panels, strict=True):
        for system in shown:
            part = table[table["system"] == system].sort_values("tau")
            color, marker = style[system]
            axis.plot(part["tpf"], part["valid"], color=color, marker=marker, label=SYSTEMS[system])
            axis.fill_between(
                part["tpf"], part["valid_low"], part["valid_high"], color=color, alpha=0.12, lw=0
            )
            if system != (shown[0] if shown is systems else shown[-1]):
                continue
            for _, row in part.iterrows():
                axis.annotate(
                    f"{row['tau']:g}", (row["tpf"], row["valid"]), fontsize=8, ha="center",
                    xytext=(0, -13 if shown is systems else 7), textcoords="offset points",
                )  # fmt: skip
        axis.set(xlabel="tokens per forward pass (TPF)")
    axes[0, 0].set(ylabel="valid answers", ylim=(-0.1, 1.05))
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(
        handles, labels, loc="outside lower center", frameon=False, ncols=min(3, len(systems))
    )
    return fig


def settings(table: pd.DataFrame) -> Figure:
    """Gain in valid answers over the stage's start for each setting, one panel a tau."""
    taus = list(dict.fromkeys(table["tau"]))
    names = list(dict.fromkeys(table["setting"]))
    fig, axes = plt.subplots(
        1, len(taus), figsize=(3.2 * len(taus) + 1.8, 0.32 * len(names) + 1.0), sharey=True,
        squeeze=False, layout="constrained",
    )  # fmt: skip
    places = np.arange(len(names))[::-1]
    for axis, tau in zip(axes[0], taus, strict=True):
        part = table[table["tau"] == tau].set_index("setting").loc[names]
        value, low, high = (part[f"valid_gain{end}"].to_numpy() for end in ("", "_low", "_high"))
        for n, chosen in enumerate(part["chosen"]):
            axis.errorbar(
                value[n], places[n], xerr=[[value[n] - low[n]], [high[n] - value[n]]],
                fmt="D" if chosen else "o", color=PALETTE[3 if chosen else 0], capsize=3,
            )  # fmt: skip
        axis.axvline(0, color="0.5", linestyle=":", linewidth=1, zorder=0)
        axis.set(title=f"tau {tau:g}", xlabel="valid answers, less CFT's (95 %)")
    axes[0, 0].set_yticks(places, names)
    return fig
