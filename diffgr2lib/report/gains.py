"""What one stage adds over another, by tau, paired by user; and settings of OPD compared."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from diffgr2lib.evaluate.metrics import ndcg, recall
from diffgr2lib.evaluate.run import Evaluation
from diffgr2lib.evaluate.statistics import difference, mean_estimate
from diffgr2lib.report.ladder import evaluations, spread
from diffgr2lib.stages import Stages

if TYPE_CHECKING:
    from diffgr2lib.run import Run

SETTINGS: dict[str, dict[str, Any]] = {
    "corrected targets, every step": {},
    "frontier targets": {"targets": "frontier"},
    "every masked position": {"targets": "masked"},
    "positions committed in the step": {"targets": "committed"},
    "one step a block": {"states": "one"},
    "reverse KL": {"divergence": "reverse"},
}


def settings_table(run: "Run", taus: tuple[float, ...] = (0.9, 0.6)) -> pd.DataFrame:
    """OPD once for each setting, from one CFT checkpoint, on validation users, per tau.

    Differences are to CFT before OPD, paired by user. It trains a stage a setting, so a table that
    lies in the run's folder is shown instead, unless the run has `force`.
    """
    path = run.out_dir / "opd_settings.csv"
    if path.exists() and not run.parameters.force:
        return pd.read_csv(path)
    rows = []
    for name, changed in SETTINGS.items():
        options = replace(run.preset.distillation, **changed)
        if changed and options == run.preset.distillation:
            continue
        preset = replace(run.preset, distillation=options)
        for tau in taus:
            decode = replace(preset.decode, tau=tau)
            before, after = (
                [
                    Stages(preset, stages.store, seed, stages.device).evaluation(
                        system, decode, "validation"
                    )
                    for seed, stages in run.ladders.items()
                ]
                for system in ("cft", "opd")
            )
            scores = ndcg(np.array([one.ranks for one in after]), 3)
            row: dict[str, Any] = {"setting": name, "chosen": not changed, "tau": tau}
            row |= {"n": scores.shape[1], "seeds": len(after)}
            row |= spread("valid", mean_estimate(_valid(after)))
            row |= spread("valid_gain", difference(_valid(after), _valid(before)))
            row |= spread("ndcg@3", mean_estimate(scores))
            rows.append(row | {"tpf": float(np.mean([one.tpf for one in after]))})
    return pd.DataFrame(rows)


def readable_settings(table: pd.DataFrame) -> pd.DataFrame:
    """The settings for people: each value with its interval in one cell, the chosen one marked."""
    marks = ["<- chosen" if chosen else "" for chosen in table["chosen"]]
    shown = pd.DataFrame({"setting": table["setting"], "": marks})
    shown["tau"] = [f"{tau:g}" for tau in table["tau"]]
    for name in ("valid", "valid_gain", "ndcg@3"):
        cells = zip(table[name], table[f"{name}_low"], table[f"{name}_high"], strict=True)
        shown[name] = [f"{value:.3f} [{low:.3f}, {high:.3f}]" for value, low, high in cells]
    return shown.assign(tpf=table["tpf"])


def differences(run: "Run", system: str, over: str) -> pd.DataFrame:
    """Valid answers and Recall@1 of a system less another's for each tau, paired by user."""
    rows = []
    for tau in run.preset.evaluate.taus:
        limit = run.preset.evaluate.sweep
        ours, theirs = (evaluations(run, name, tau, limit=limit) for name in (system, over))
        row: dict[str, Any] = {"system": system, "over": over, "tau": tau}
        row |= {"n": len(ours[0].users), "seeds": len(ours)}
        row |= spread("valid_gain", difference(_valid(ours), _valid(theirs)))
        row |= spread("recall@1_gain", difference(_hits(ours), _hits(theirs)))
        rows.append(row)
    return pd.DataFrame(rows)


def verdicts(apart: pd.DataFrame) -> list[str]:
    """A sentence a tau: whether the valid answers are more, fewer, or not told apart."""
    lines = []
    for _, row in apart.iterrows():
        low, high = row["valid_gain_low"], row["valid_gain_high"]
        verdict = "more" if low > 0 else "FEWER" if high < 0 else "no difference found"
        lines.append(
            f"tau {row['tau']:g}: valid, {row['system']} less {row['over']}:"
            f" {row['valid_gain']:+.3f} [{low:+.3f}, {high:+.3f}], {verdict}"
        )
    return lines


def _valid(found: list[Evaluation]) -> np.ndarray:
    return np.array([one.valid for one in found])


def _hits(found: list[Evaluation]) -> np.ndarray:
    return recall(np.array([one.ranks for one in found]), 1)
