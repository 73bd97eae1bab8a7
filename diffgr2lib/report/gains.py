"""What one stage adds over another, by tau, paired by user."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from diffgr2lib.evaluate.metrics import recall
from diffgr2lib.evaluate.run import Evaluation
from diffgr2lib.evaluate.statistics import difference
from diffgr2lib.report.ladder import evaluations, spread

if TYPE_CHECKING:
    from diffgr2lib.run import Run


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


def _valid(found: list[Evaluation]) -> np.ndarray:
    return np.array([one.valid for one in found])


def _hits(found: list[Evaluation]) -> np.ndarray:
    return recall(np.array([one.ranks for one in found]), 1)
