"""What a prompt says of an item, computed for any history and candidates as for the test lists."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from diffgr2lib.config import DataConfig
from diffgr2lib.data.lists import Edges, Tasks, cross_fitted, example, fit_edges, read_dataset
from diffgr2lib.data.retriever import Retriever, Settings
from diffgr2lib.data.types import Catalogue, Dataset, Example
from diffgr2lib.errors import DataError

FILE = "shop.json"
Ids = Sequence[int]


@dataclass(frozen=True)
class Shop:
    """Catalogue, purchases (no user ids), the retriever's settings and the evidence's buckets."""

    config: DataConfig
    catalogue: Catalogue
    purchases: list[tuple[int, ...]]
    settings: Settings
    edges: Edges

    @classmethod
    def build(cls, config: DataConfig, settings: Settings) -> Self:
        """From the data stage's configuration, and the settings that its tuning chose.

        The purchases are those that test lists are made from: all but each user's last one.
        """
        dataset, _ = read_dataset(config)
        train = cross_fitted(dataset, settings, config, np.random.default_rng((config.seed, 1)))
        edges = fit_edges(train.signals, train.targets >= 0)
        seen = [sequence[:-1] for sequence in dataset.sequences.values()]
        return cls(config, dataset.catalogue, seen, settings, edges)

    def write(self, folder: Path) -> None:
        """Write `shop.json`."""
        data = {
            "config": asdict(self.config),
            "catalogue": self.catalogue.to_json(),
            "purchases": [list(sequence) for sequence in self.purchases],
            "settings": {name: getattr(self.settings, name) for name in Settings.__slots__},
            "edges": {name: getattr(self.edges, name).tolist() for name in Edges.__slots__},
        }
        (folder / FILE).write_text(json.dumps(data, separators=(",", ":")) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Inverse of `write`. Raises `DataError` where the file is missing or of another kind."""
        path = folder / FILE
        try:
            data: Any = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                DataConfig(**data["config"]),
                Catalogue.from_json(data["catalogue"]),
                [tuple(sequence) for sequence in data["purchases"]],
                Settings(**data["settings"]),
                Edges(**{name: np.array(values) for name, values in data["edges"].items()}),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path} cannot be read ({error!r}). Write the folder anew with"
                " `python -m diffgr2lib.serve`."
            ) from error

    def retriever(self) -> Retriever:
        """Fitted on the purchases."""
        return Retriever(self.purchases, self.catalogue, self.settings)

    def examples(
        self, retriever: Retriever, histories: Sequence[Ids], candidates: Sequence[Ids]
    ) -> list[Example]:
        """Tasks without an answer key (target 0 holds its place), candidates in the given order.

        Raises `DataError` that names the row for an empty history, an unknown item, an item twice
        among the candidates, or fewer than two or more than `config.candidates` of them.
        """
        if len(histories) != len(candidates):
            raise DataError(
                f"{len(histories)} histories with {len(candidates)} lists of candidates; give one"
                " list for each history."
            )
        made = []
        for row, (history, listed) in enumerate(zip(histories, candidates, strict=True)):
            self._check(row, history, listed)
            query, ids = [tuple(history)], np.array([list(listed)])
            signals = retriever.describe(query, ids, retriever.score(query, ids))
            task = Tasks(np.array([row]), query, signals, np.array([0]))
            dataset = Dataset("shop", self.catalogue, {})
            made.append(example(dataset, task, self.edges, 0, "serve", self.config))
        return made

    def _check(self, row: int, history: Ids, listed: Ids) -> None:
        count, most = len(self.catalogue.items), self.config.candidates
        if not len(history):
            raise DataError(f"Row {row}: the history is empty; give at least one purchase.")
        for name, ids in (("history", history), ("candidates", listed)):
            odd = next((i for i in ids if isinstance(i, bool) or not _whole(i, count)), None)
            if odd is not None:
                raise DataError(
                    f"Row {row}: {odd!r} among the {name} is no item; ids run from 1 to {count}."
                )
        if not 2 <= len(listed) <= most:
            raise DataError(
                f"Row {row}: {len(listed)} candidates; give 2 to {most}, the best first."
            )
        if len(set(listed)) < len(listed):
            twice = next(i for i in listed if list(listed).count(i) > 1)
            raise DataError(f"Row {row}: candidate {twice} is named more than once.")


def _whole(value: Any, most: int) -> bool:
    return isinstance(value, (int, np.integer)) and bool(1 <= value <= most)
