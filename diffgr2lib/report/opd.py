"""What on-policy distillation adds: settings compared on validation, and gains paired by user."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from diffgr2lib.config import Distillation
from diffgr2lib.evaluate.metrics import ndcg, recall
from diffgr2lib.evaluate.run import Evaluation
from diffgr2lib.evaluate.statistics import difference, mean_estimate
from diffgr2lib.report.ladder import evaluations, spread
from diffgr2lib.stages import Stages

if TYPE_CHECKING:
    from diffgr2lib.run import Run

SETTINGS: dict[str, dict[str, Any]] = {
    "as chosen": {},
    "every masked position": {"targets": "masked"},
    "masked, blind ones half": {"targets": "masked", "blind_weight": 0.5},
    "committed now": {"targets": "committed"},
    "all steps": {"states": "all"},
    "reverse KL": {"divergence": "reverse"},
    "Jensen-Shannon": {"divergence": "jsd"},
    "rollouts at tau 0.9": {"tau": 0.9},
    "CFT rows mixed in": {"cft_weight": 0.5},
}


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


def settings_table(run: "Run", names: tuple[str, ...] = tuple(SETTINGS)) -> pd.DataFrame:
    """OPD trained once for each setting from the same checkpoint; validation users, two taus."""
    rows = []
    for name in names:
        options: Distillation = replace(run.preset.distillation, **SETTINGS[name])
        preset = replace(run.preset, distillation=options)
        store, device = run.first.store, run.first.device
        for tau in (0.9, 0.6):
            decode = replace(preset.decode, tau=tau)
            found = [
                Stages(preset, store, seed, device).evaluation(
                    "opd", decode, "validation", preset.evaluate.sweep
                )
                for seed in run.seeds
            ]
            scores = np.array([ndcg(np.array(one.ranks), 3) for one in found])
            row: dict[str, Any] = {"setting": name, "tau": tau, "n": scores.shape[1]}
            row |= spread("valid", mean_estimate(_valid(found)))
            row |= spread("ndcg@3", mean_estimate(scores))
            rows.append(row | {"tpf": float(np.mean([one.tpf for one in found]))})
    return pd.DataFrame(rows)


def _valid(found: list[Evaluation]) -> np.ndarray:
    return np.array([one.valid for one in found])


def _hits(found: list[Evaluation]) -> np.ndarray:
    return recall(np.array([one.ranks for one in found]), 1)
