"""Tables 1, 2 and 5 and the validity table, from a run's stages."""

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from diffgr2lib.config import Preset
from diffgr2lib.data import scorecard
from diffgr2lib.evaluate import baselines
from diffgr2lib.evaluate.metrics import mrr, ndcg, recall
from diffgr2lib.evaluate.run import Evaluation
from diffgr2lib.evaluate.statistics import Estimate, difference, mean_estimate, share_recovered
from diffgr2lib.text.grammar import FAILURES

if TYPE_CHECKING:
    from diffgr2lib.run import Run

METRICS = {
    "recall@1": lambda ranks: recall(ranks, 1),
    "recall@3": lambda ranks: recall(ranks, 3),
    "ndcg@3": lambda ranks: ndcg(ranks, 3),
    "mrr": mrr,
}
SYSTEMS = {
    "floor": "Retriever order (floor)",
    "logistic": "Logistic re-ranker",
    "boosted": "Gradient-boosted re-ranker",
    "scorecard": "Scorecard (the trace teacher)",
    "ar_no_trace": "AR without trace",
    "ar_sft": "AR re-ranker (SFT)",
    "ar": "AR re-ranker (SFT, RL)",
    "naive": "Naive conversion",
    "cft": "Converted, CFT",
    "cft_more": "More CFT, OPD's compute",
    "opd": "CFT, OPD",
    "rl": "CFT, OPD, RL",
}
BASELINES = ("floor", "logistic", "boosted", "scorecard")
TEACHER = "ar_sft"  # whose gain over the floor a conversion has to recover


def upto(system: str) -> list[str]:
    """All systems of the ladder from the floor to this one, in order."""
    names = list(SYSTEMS)
    return names[: names.index(system) + 1]


def dataset_table(run: "Run") -> pd.DataFrame:
    """Table 1: sizes, hit rates and floors of the data, one figure a row."""
    report = run.first.world.report
    rows: list[tuple[str, Any]] = [
        ("users", report["users"]),
        ("items", report["items"]),
        ("purchases", report["purchases"]),
    ]
    for split in ("train", "validation", "test"):
        part = report[split]
        rows += [
            (f"{split}: queries", part["queries"]),
            (f"{split}: hit rate at 10", part["hit_rate"]),
            (f"{split}: lists used", part["lists"]),
            (f"{split}: floor Recall@1", part["floor_recall@1"]),
            (f"{split}: unconditional Recall@1", part["unconditional_recall@1"]),
        ]
    if "bayes_recall@1" in report["test"]:
        rows.append(("test: Bayes-optimal Recall@1", report["test"]["bayes_recall@1"]))
    rows.append(("teacher traces kept (share of training lists)", report["traces_kept_share"]))
    return pd.DataFrame(rows, columns=["figure", "value"])


@lru_cache(maxsize=4)
def baseline_ranks(run: "Run", split: str = "test") -> dict[str, np.ndarray]:
    """Ranks [n] of the re-rankers that need no language model, fitted on the training lists.

    Fitted once a run: tables and checks ask for them again and again.
    """
    world = run.first.world
    examples = getattr(world, split)
    card = [scorecard.trace(world.card, e).order.index(e.target) + 1 for e in examples]
    return {
        "floor": baselines.floor_ranks(examples),
        "logistic": baselines.logistic_ranks(world.train, examples),
        "boosted": baselines.boosted_ranks(world.train, examples),
        "scorecard": np.array(card),
    }


def evaluations(
    run: "Run", system: str, tau: float | None = None, **options: Any
) -> list[Evaluation]:
    """The system's test evaluation for every seed; tau None keeps the preset's."""
    decode = run.preset.decode if tau is None else replace(run.preset.decode, tau=tau)
    return [stages.evaluation(system, decode, **options) for stages in run.ladders.values()]


def accuracy_table(run: "Run", systems: Sequence[str]) -> pd.DataFrame:
    """Table 2 for these systems, at the preset's tau, with 95 % intervals paired by user.

    share_recovered: how much of the AR teacher's gain in Recall@1 over the floor a system keeps.
    """
    ranks: dict[str, np.ndarray] = {}  # [seeds, n]
    valid: dict[str, np.ndarray] = {}
    if any(system in BASELINES for system in systems):
        ranks |= {name: value[None] for name, value in baseline_ranks(run).items()}
    for system in dict.fromkeys([*systems, TEACHER]):
        if system not in BASELINES:
            found = evaluations(run, system)
            ranks[system] = np.array([one.ranks for one in found])
            valid[system] = np.array([one.valid for one in found])
    rows = []
    floor, ar = (recall(ranks[name], 1) for name in ("floor", TEACHER))
    for system in systems:
        # AR commits one token a pass, whatever tau is
        by_block = system not in BASELINES and not system.startswith("ar")
        row: dict[str, Any] = {
            "system": system,
            "tau": run.preset.decode.tau if by_block else None,
            "n": ranks[system].shape[1],
            "seeds": ranks[system].shape[0] if system not in BASELINES else 1,
        }
        answers = valid.get(system, np.ones_like(ranks[system], dtype=float))
        row |= spread("valid", mean_estimate(answers))
        for name, metric in METRICS.items():
            row |= spread(name, mean_estimate(metric(ranks[system])))
        row |= spread("share_recovered", share_recovered(floor, ar, recall(ranks[system], 1)))
        rows.append(row)
    return pd.DataFrame(rows)


def spread(name: str, estimate: Estimate) -> dict[str, float]:
    """Three columns: the value and its interval's ends."""
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def validity_table(run: "Run", systems: Sequence[str]) -> pd.DataFrame:
    """Valid share and failure types for each tau on the sweep's users (types may overlap)."""
    rows = []
    for system in systems:
        for tau in run.preset.evaluate.taus:
            found = evaluations(run, system, tau, limit=run.preset.evaluate.sweep)
            row: dict[str, Any] = {"system": system, "tau": tau, "n": len(found[0].users)}
            row["seeds"] = len(found)
            row |= spread("valid", mean_estimate(np.array([one.valid for one in found])))
            for kind in FAILURES:
                row[kind.replace("-", "_")] = float(np.mean([one.failed(kind) for one in found]))
            row |= {
                "recall@1": float(np.mean([recall(np.array(one.ranks), 1) for one in found])),
                "nfe": float(np.mean([one.nfe for one in found])),
                "tpf": float(np.mean([one.tpf for one in found])),
            }
            rows.append(row)
    return pd.DataFrame(rows)


PAPER_GIVES = {
    "data.candidates": 10,
    "model.form": "full",
    "diffusion.block_size": 32,
    "diffusion.context": "block",
    "decode.fallback": "best",
    "distillation.samples": 4,
    "distillation.divergence": "forward",
    "reinforcement.group": 8,
    "reinforcement.clip_low": 0.2,
    "reinforcement.alpha": 0.2,
    "reinforcement.kl": 0.0,
    "opd.lr": 1e-6,
    "opd.batch": 128,
    "opd.steps": 1500,
    "rl.lr": 5e-7,
    "rl.steps": 600,
}


def hyperparameter_table(preset: Preset) -> pd.DataFrame:
    """Table 5: every setting, the paper's value where it gives one, and whose choice it is."""
    rows = []
    for section, settings in dataclasses.asdict(preset).items():
        if not isinstance(settings, dict):
            continue
        for name, value in settings.items():
            key = f"{section}.{name}"
            paper = PAPER_GIVES.get(key)
            source = "ours" if paper is None else "paper" if paper == value else "ours, other"
            rows.append((section, name, str(value), "" if paper is None else str(paper), source))
    return pd.DataFrame(rows, columns=["section", "setting", "value", "paper", "source"])


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """Table 2 for people: systems spelt out, each value with its interval in one cell."""
    shown = pd.DataFrame({"system": [SYSTEMS[name] for name in table["system"]]})
    shown["tau"] = ["" if pd.isna(tau) else f"{tau:g}" for tau in table["tau"]]
    shown["n"], shown["seeds"] = table["n"], table["seeds"]
    for name in ("valid", *METRICS, "share_recovered"):
        cells = zip(table[name], table[f"{name}_low"], table[f"{name}_high"], strict=True)
        shown[name] = [
            "-" if pd.isna(v) else f"{v:.3f} [{low:.3f}, {high:.3f}]" for v, low, high in cells
        ]
    return shown


def _ranks(run: "Run", system: str) -> np.ndarray:
    """Ranks of a system, [1, n] for a baseline, [seeds, n] for a model at the preset's tau."""
    if system in BASELINES:
        return baseline_ranks(run)[system][None]
    return np.array([one.ranks for one in evaluations(run, system)])


def gain(run: "Run", system: str, over: str, metric: str = "recall@1") -> Estimate:
    """Difference of two systems in a metric, paired by user."""
    measure = METRICS[metric]
    return difference(measure(_ranks(run, system)), measure(_ranks(run, over)))


def recovered(run: "Run", system: str, metric: str) -> Estimate:
    """Share of the AR teacher's gain over the floor that a system keeps, in a metric."""
    measure = METRICS[metric]
    floor, ar, own = (measure(_ranks(run, name)) for name in ("floor", TEACHER, system))
    return share_recovered(floor, ar, own)


def decoder_table(run: "Run", system: str) -> pd.DataFrame:
    """Plain, `distinct` and `constrained` decoding of one system for each tau below 1."""
    rows = []
    for tau in [tau for tau in run.preset.evaluate.taus if tau < 1]:
        for name in ("threshold", "distinct", "constrained"):
            decode = replace(
                run.preset.decode,
                tau=tau,
                distinct=name == "distinct",
                constrained=name == "constrained",
            )
            limit = run.preset.evaluate.sweep
            found = [s.evaluation(system, decode, limit=limit) for s in run.ladders.values()]
            hits = recall(np.array([one.ranks for one in found]), 1)
            row: dict[str, Any] = {"decoder": name, "tau": tau, "n": hits.shape[1]}
            row |= spread("valid", mean_estimate(np.array([one.valid for one in found])))
            row |= spread("recall@1", mean_estimate(hits))
            rows.append(row | {"tpf": float(np.mean([one.tpf for one in found]))})
    return pd.DataFrame(rows)


def scorecard_table(card: scorecard.Scorecard) -> pd.DataFrame:
    """The scorecard's points: one row a kind of evidence, one column a level."""
    points = {name: list(values) for name, values in card.points.items()}
    return pd.DataFrame.from_dict(points, orient="index").map(
        lambda value: "" if pd.isna(value) else f"{value:.0f}"
    )
