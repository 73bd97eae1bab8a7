"""Tables of the ablations: departures paired by user, tau curves, decoders, likelihoods."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from diffgr2lib.ablate.cells import BASE, LEARNING, OPD, RL, START, served
from diffgr2lib.ablate.decoders import CURVES, decoders
from diffgr2lib.ablate.meanfield import mean_field
from diffgr2lib.ablate.scaling import points
from diffgr2lib.ablate.study import Study
from diffgr2lib.config import DecodeConfig
from diffgr2lib.evaluate.metrics import ndcg, recall
from diffgr2lib.evaluate.run import Evaluation
from diffgr2lib.evaluate.statistics import (
    detectable,
    difference,
    holm,
    mean_estimate,
    p_value,
)
from diffgr2lib.onpolicy.rollout import roll_out
from diffgr2lib.report.ladder import spread
from diffgr2lib.text.grammar import FAILURES
from diffgr2lib.train.rows import encode_prompt

if TYPE_CHECKING:
    from diffgr2lib.run import Run

LEVEL = 0.05
SCORES = {
    "valid": lambda found: np.array([one.valid for one in found]),
    "recall@1": lambda found: recall(np.array([one.ranks for one in found]), 1),
    "ndcg@3": lambda found: ndcg(np.array([one.ranks for one in found]), 3),
}


class Ablations:
    """The studies of a run, one a seed."""

    def __init__(self, run: "Run") -> None:
        self.run = run
        self.studies = {seed: Study(stages) for seed, stages in run.ladders.items()}
        self.first = self.studies[run.seeds[0]]

    def evaluations(self, name: str, decode: DecodeConfig) -> list[Evaluation]:
        """One a seed, over the study's test users."""
        return [study.evaluation(name, decode) for study in self.studies.values()]

    def departures(self) -> pd.DataFrame:
        """Every cell at every tau of the study, and its difference to the cell it departs from.

        *_p is Holm's over all rows of the table for that metric; *_detectable the smallest
        difference that these users find 4 times in 5.
        """
        study, rows = self.first, []
        for cell in study.cells.values():
            for tau in study.settings.taus:
                decode = replace(served(study.preset), tau=tau)
                own, base = (self.evaluations(name, decode) for name in (cell.name, cell.over))
                row: dict[str, Any] = {"cell": cell.name, "family": cell.family, "over": cell.over}
                row |= {"tau": tau, "n": len(own[0].users), "seeds": len(own)}
                spent = [_columns(study, cell.name) for study in self.studies.values()]
                row["columns_m"] = float(np.mean(spent)) / 1e6
                row["tpf"] = float(np.mean([one.tpf for one in own]))
                for name, score in SCORES.items():
                    row |= spread(name, mean_estimate(score(own)))
                    if cell.name != cell.over:
                        pair = (score(own), score(base))
                        row |= spread(f"{name}_gain", difference(*pair))
                        row |= {f"{name}_p": p_value(*pair)}
                        row |= {f"{name}_detectable": detectable(*pair)}
                rows.append(row)
        table = pd.DataFrame(rows)
        for name in SCORES:
            compared = table[f"{name}_p"].notna()
            table.loc[compared, f"{name}_p"] = holm(table.loc[compared, f"{name}_p"].to_numpy())
        return table

    def curves(self) -> pd.DataFrame:
        """Whole tau curves of CFT, OPD and RL: scores, failure types, tokens a pass."""
        study, rows = self.first, []
        for name in CURVES:
            for tau in study.settings.curve:
                found = self.evaluations(name, replace(served(study.preset), tau=tau))
                row: dict[str, Any] = {"cell": name, "tau": tau, "n": len(found[0].users)}
                row["seeds"] = len(found)
                for metric, score in SCORES.items():
                    row |= spread(metric, mean_estimate(score(found)))
                for kind in FAILURES:
                    row[kind.replace("-", "_")] = np.mean([one.failed(kind) for one in found])
                rows.append(row | {"tpf": float(np.mean([one.tpf for one in found]))})
        return pd.DataFrame(rows)

    def learning(self) -> pd.DataFrame:
        """Answers on validation users by compute, in million columns since SFT; a row a report."""
        rows = []
        for seed, study in self.studies.items():
            for name in LEARNING:
                before = self._spent(study, study.cell(name).parent)
                for record in study.history(name):
                    row = {"cell": name, "seed": seed, "step": record["step"]}
                    row["columns_m"] = (before + record["columns"]) / 1e6
                    rows.append(row | {key: record[key] for key in ("valid", "ndcg@3", "tpf")})
        return pd.DataFrame(rows)

    def _spent(self, study: Study, name: str) -> float:
        """Columns of a cell and all that it starts from, SFT aside."""
        if name == START:
            return 0.0
        return _columns(study, name) + self._spent(study, study.cell(name).parent)

    def scaling(self) -> pd.DataFrame:
        """AR, CFT, OPD and RL at other model sizes and fewer traces, at the preset's tau."""
        first = self.first.stages
        rows = []
        for point in points(first.preset, len(first.world.traces)):
            studies = [Study(one.stages.variant(point.preset)) for one in self.studies.values()]
            decode = served(point.preset)
            users = studies[0].settings.users
            found = {"AR": [s.stages.evaluation("ar_sft", decode, limit=users) for s in studies]}
            for name in (BASE, OPD, RL):
                found[name] = [s.evaluation(name, decode) for s in studies]
            size = studies[0].policy(BASE).model.num_parameters()
            for name, runs in found.items():
                row: dict[str, Any] = {"axis": point.axis, "share": point.share, "system": name}
                row |= {"parameters": size, "tau": decode.tau, "n": len(runs[0].users)}
                row["seeds"] = len(runs)
                for metric, score in SCORES.items():
                    row |= spread(metric, mean_estimate(score(runs)))
                rows.append(row | {"tpf": float(np.mean([one.tpf for one in runs]))})
        return pd.DataFrame(rows)

    def decoders(self) -> pd.DataFrame:
        """Commit rules and constraints on one checkpoint."""
        rows = []
        for name, (cell, decode) in decoders(self.first.preset).items():
            found = self.evaluations(cell, decode)
            row: dict[str, Any] = {"decoder": name, "cell": cell, "n": len(found[0].users)}
            row["seeds"] = len(found)
            for metric, score in SCORES.items():
                row |= spread(metric, mean_estimate(score(found)))
            rows.append(row | {"tpf": float(np.mean([one.tpf for one in found]))})
        return pd.DataFrame(rows)

    @torch.no_grad()
    def likelihoods(self, taus: Sequence[float] = (0.9, 0.6), prompts: int = 64) -> pd.DataFrame:
        """Log-probability of the base cell's own samples: replayed, and mean-field.

        replay is the recorded one; bias: mean-field less replay, nats a response; correlation:
        between the two over the responses.
        """
        study, world = self.first, self.first.stages.world
        policy, grammar = study.policy(BASE), study.stages.grammar
        assert policy.tokenizer is not None
        asked = [encode_prompt(policy.tokenizer, grammar, e) for e in world.validation[:prompts]]
        rows = []
        for tau in taus:
            decode = replace(served(study.preset), tau=tau, temperature=1.0)
            made = roll_out(policy, asked, 1, decode, [study.stages.seed, 11])
            exact = np.array([sum(one.log_probability) for one in made])
            cheap = mean_field(policy, made).sum(1).numpy()
            row: dict[str, Any] = {"cell": BASE, "tau": tau, "n": len(made)}
            row |= {"replay": float(exact.mean()), "mean_field": float(cheap.mean())}
            row |= spread("bias", mean_estimate(cheap - exact))
            rows.append(row | {"correlation": float(np.corrcoef(exact, cheap)[0, 1])})
        return pd.DataFrame(rows)


def _columns(study: Study, name: str) -> float:
    """Columns that the cell's own training spent."""
    return float(study.trained(name).manifest["metrics"]["columns"])


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """The departures for people; * marks what holds after Holm's correction."""
    shown = table[["cell", "over", "tau"]].copy()
    shown["over"] = [
        "" if cell == over else over
        for cell, over in zip(table["cell"], table["over"], strict=True)
    ]
    shown["tau"] = [f"{tau:g}" for tau in table["tau"]]
    for name in ("valid", "ndcg@3"):
        shown[name] = table[name]
        columns = [table[f"{name}_gain{end}"] for end in ("", "_low", "_high")]
        marks = ["*" if p < LEVEL else "" for p in table[f"{name}_p"]]
        shown[f"{name}, less that"] = [
            "" if pd.isna(v) else f"{v:+.3f} [{low:+.3f}, {high:+.3f}]{mark}"
            for v, low, high, mark in zip(*columns, marks, strict=True)
        ]
    return shown.assign(tpf=table["tpf"])


def summary(table: pd.DataFrame, metric: str = "valid") -> list[str]:
    """What matters, what does not: a line a departure that holds after Holm, then the others."""
    compared = table[table[f"{metric}_p"].notna()]
    lines, quiet = [], []
    for name, part in compared.groupby("cell", sort=False):
        held = part[part[f"{metric}_p"] < LEVEL]
        if held.empty:
            quiet.append(str(name))
            continue
        found = "; ".join(
            f"{row[f'{metric}_gain']:+.3f} [{row[f'{metric}_gain_low']:+.3f},"
            f" {row[f'{metric}_gain_high']:+.3f}] at tau {row['tau']:g}"
            for _, row in held.iterrows()
        )
        lines.append(f"{name}, less {held.iloc[0]['over']}: {found}")
    least = compared[f"{metric}_detectable"].median()
    ends = f"No difference in {metric} found (of {least:.3f} or more, 4 times in 5): "
    return [*lines, ends + (", ".join(quiet) or "none")]
