"""Candidate lists: cross-fitted for training, leave-one-out for validation and test.

The retriever that ranks for a training target was fitted on other users' purchases, so it has not
seen that target, and training lists look like test lists. A list is kept when it holds the item
bought next; the report has the unconditional figures too.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from diffgr2lib.config import DataConfig
from diffgr2lib.data.folder import Codebooks, find_beauty, read_beauty, read_folder
from diffgr2lib.data.retriever import Retriever, Settings, Signals, tune
from diffgr2lib.data.toy import Oracle, make_toy
from diffgr2lib.data.types import Candidate, Catalogue, Dataset, Example
from diffgr2lib.errors import DataError

logger = logging.getLogger(__name__)

FOLLOW_CAP = 3
LIFT_EDGES = (1.0, 2.0, 4.0)  # complement buckets: times as often as by chance


@dataclass(frozen=True, slots=True)
class Lists:
    """All re-ranking tasks of a dataset (each holds its target), and the figures of the retriever.

    report: plain numbers; shares are fractions of 1. See `build_lists`.
    """

    catalogue: Catalogue
    train: list[Example]
    validation: list[Example]
    test: list[Example]
    report: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers."""
        splits = {name: getattr(self, name) for name in ("train", "validation", "test")}
        return {
            "catalogue": self.catalogue.to_json(),
            "report": self.report,
            **{name: [example.to_json() for example in part] for name, part in splits.items()},
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Inverse of `to_json`."""
        catalogue = Catalogue.from_json(data["catalogue"])
        splits = {
            name: [Example.from_json(example, catalogue) for example in data[name]]
            for name in ("train", "validation", "test")
        }
        return cls(catalogue=catalogue, report=data["report"], **splits)


@dataclass(frozen=True, slots=True)
class Tasks:
    """Ranked queries of one split: users [N], queries, their lists, targets [N] (index or -1)."""

    users: np.ndarray
    queries: list[tuple[int, ...]]
    signals: Signals
    targets: np.ndarray

    def recall(self, k: int) -> float:
        """Share of all queries whose target is among the first k candidates."""
        return (
            float(((self.targets >= 0) & (self.targets < k)).mean()) if len(self.targets) else 0.0
        )

    def floor(self) -> float:
        """The retriever's own Recall@1 on the lists that hold their target."""
        return self.recall(1) / max(self.recall(self.signals.ids.shape[1]), 1e-12)


@dataclass(frozen=True, slots=True)
class Edges:
    """Upper bounds of the evidence buckets, quantiles over the training lists."""

    score: np.ndarray
    popularity: np.ndarray


def make_lists(config: DataConfig) -> Lists:
    """Read or generate what `config.source` names, then `build_lists`."""
    dataset, oracle = read_dataset(config)
    return build_lists(dataset, config, oracle)


def read_dataset(config: DataConfig) -> tuple[Dataset, Oracle | None]:
    """What `config.source` names; the toy world with its oracle."""
    if config.source == "toy":
        world = make_toy(config)
        return world.dataset, world.oracle
    if config.source == "beauty":
        return read_beauty(find_beauty(config.path), config.brands_shown), None
    books = Codebooks(config.sid_levels, config.codes, config.seed)
    return read_folder(config.path, brands_shown=config.brands_shown, codebooks=books), None


def build_lists(dataset: Dataset, config: DataConfig, oracle: Oracle | None = None) -> Lists:
    """Tune the retriever on validation, rank, bucket the evidence, keep lists with their target.

    Deterministic in config.seed. With the toy world's oracle the report has the Bayes-optimal
    Recall@1 of the test lists. Raises `DataError` where a split keeps no list.
    """
    sequences = dataset.sequences
    fitting = [sequence[:-2] for sequence in sequences.values()]
    validation_targets = np.array([sequence[-2] for sequence in sequences.values()])
    settings = tune(fitting, validation_targets, fitting, len(dataset.catalogue.items))
    rng = np.random.default_rng((config.seed, 1))
    train = cross_fitted(dataset, settings, config, rng)
    seen_at_test = [sequence[:-1] for sequence in sequences.values()]
    validation = leave_one_out(dataset, settings, config.candidates, fitting, -2)
    test = leave_one_out(dataset, settings, config.candidates, seen_at_test, -1)
    edges = fit_edges(train.signals, train.targets >= 0)
    most = {
        "train": (train, config.max_train),
        "validation": (validation, config.max_validation),
        "test": (test, config.max_test),
    }
    made, report = {}, dataset_report(dataset, settings)
    for split, (tasks, limit) in most.items():
        rows = np.flatnonzero(tasks.targets >= 0)
        report[split] = split_report(tasks)
        if len(rows) > limit:
            rows = np.sort(rng.choice(rows, limit, replace=False))
        if not len(rows):
            raise DataError(
                f"{dataset.name}: no {split} list holds the item bought next, so there is nothing"
                " to re-rank. Give more users, or fewer items."
            )
        report[split]["lists"] = len(rows)
        made[split] = [example(dataset, tasks, edges, int(n), split, config) for n in rows]
    if oracle is not None:
        report["test"]["bayes_recall@1"] = oracle.recall_at_1(made["test"])
    logger.info("lists: %s", report)
    return Lists(dataset.catalogue, report=report, **made)


def cross_fitted(
    dataset: Dataset, settings: Settings, config: DataConfig, rng: np.random.Generator
) -> Tasks:
    """Training tasks: the last `train_positions` items of each user's training part that have a
    purchase before them, ranked by a retriever fitted on the other folds' users."""
    users = np.array(list(dataset.sequences))
    fold = rng.permutation(len(users)) % config.folds
    parts = []
    for f in range(config.folds):
        others = [dataset.sequences[user][:-2] for user in users[fold != f]]
        retriever = Retriever(others, dataset.catalogue, settings)
        owners, queries, targets = [], [], []
        for user in users[fold == f]:
            bought = dataset.sequences[user][:-2]
            for end in range(max(1, len(bought) - config.train_positions), len(bought)):
                owners.append(user)
                queries.append(bought[:end])
                targets.append(bought[end])
        if owners:
            parts.append(ranked(retriever, owners, queries, targets, config.candidates))
    if not parts:
        raise DataError(
            f"{dataset.name}: no user has a training list: each needs a purchase before it, and two"
            " after it for validation and test. Give more purchases a user."
        )
    signals = Signals(
        *(
            np.concatenate([getattr(part.signals, name) for part in parts])
            for name in Signals.__slots__
        )
    )
    return Tasks(
        np.concatenate([part.users for part in parts]),
        [query for part in parts for query in part.queries],
        signals,
        np.concatenate([part.targets for part in parts]),
    )


def leave_one_out(
    dataset: Dataset, settings: Settings, K: int, fitting: list[tuple[int, ...]], position: int
) -> Tasks:
    """Tasks whose target is the item at `position` and whose query is all before it."""
    retriever = Retriever(fitting, dataset.catalogue, settings)
    sequences = dataset.sequences
    queries = [sequence[:position] for sequence in sequences.values()]
    targets = [sequence[position] for sequence in sequences.values()]
    return ranked(retriever, list(sequences), queries, targets, K)


def ranked(
    retriever: Retriever,
    users: Sequence[int],
    queries: list[tuple[int, ...]],
    targets: Sequence[int],
    K: int,
) -> Tasks:
    """Rank the queries and find each target (item id) in its list."""
    signals = retriever.rank(queries, K)
    match = signals.ids == np.asarray(targets)[:, None]
    found = np.where(match.any(axis=1), match.argmax(axis=1), -1)
    return Tasks(np.asarray(users), queries, signals, found)


def below_top(scores: np.ndarray) -> np.ndarray:
    """Log of each score over the list's highest, [.., K]; 0 for that one, negative below."""
    return np.log(scores) - np.log(scores.max(-1, keepdims=True))


def fit_edges(signals: Signals, kept: np.ndarray) -> Edges:
    """Equal shares of the kept training lists' candidates in every bucket, as far as ties allow."""
    sixths, quarters = np.arange(1, 6) / 6, np.arange(1, 4) / 4
    if not kept.any():
        kept = np.ones_like(kept)
    return Edges(
        np.quantile(below_top(signals.scores[kept]), sixths),
        np.quantile(signals.popularity[kept], quarters),
    )


def example(
    dataset: Dataset, tasks: Tasks, edges: Edges, n: int, split: str, config: DataConfig
) -> Example:
    """Task n with its evidence in buckets."""
    catalogue, signals = dataset.catalogue, tasks.signals
    buckets = zip(
        np.searchsorted(edges.score, below_top(signals.scores[n]), side="right"),
        np.minimum(signals.follow[n], FOLLOW_CAP),
        np.searchsorted(LIFT_EDGES, signals.lift[n], side="right"),
        np.searchsorted(edges.popularity, signals.popularity[n], side="right"),
        strict=True,
    )
    candidates = tuple(
        Candidate(catalogue.item(int(item)), *(int(level) for level in levels))
        for item, levels in zip(signals.ids[n], buckets, strict=True)
    )
    history = tuple(catalogue.item(item) for item in tasks.queries[n][-config.history_shown :])
    return Example(int(tasks.users[n]), history, candidates, int(tasks.targets[n]), split)


def dataset_report(dataset: Dataset, settings: Settings) -> dict[str, Any]:
    """Counts of the dataset and the settings that tuning chose."""
    return {
        "dataset": dataset.name,
        "users": len(dataset.sequences),
        "items": len(dataset.catalogue.items),
        "purchases": sum(map(len, dataset.sequences.values())),
        "retriever": {name: getattr(settings, name) for name in Settings.__slots__},
    }


def split_report(tasks: Tasks) -> dict[str, Any]:
    """Over all queries: number, hit rate, Recall@1, @3; over lists with their target: floor."""
    return {
        "queries": len(tasks.targets),
        "hit_rate": tasks.recall(tasks.signals.ids.shape[1]),
        "unconditional_recall@1": tasks.recall(1),
        "unconditional_recall@3": tasks.recall(3),
        "floor_recall@1": tasks.floor(),
    }
