"""What the data stage keeps, as JSON: lists, scorecard and kept teacher traces."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diffgr2lib.config import DataConfig
from diffgr2lib.data import scorecard
from diffgr2lib.data.lists import make_lists
from diffgr2lib.data.scorecard import Scorecard, Trace
from diffgr2lib.data.types import Catalogue, Example


@dataclass(frozen=True)
class World:
    """What the data stage holds: lists, scorecard, kept teacher traces and a report of figures."""

    catalogue: Catalogue
    train: list[Example]
    validation: list[Example]
    test: list[Example]
    card: Scorecard
    traces: list[tuple[int, Trace]]
    report: dict[str, Any]


def build_world(config: DataConfig, out: Path) -> dict[str, Any]:
    """Lists, scorecard and traces of one data configuration, written as JSON."""
    lists = make_lists(config)
    card = scorecard.fit(lists.train, config.point_scale)
    kept = []
    for n, example in enumerate(lists.train):
        rng = np.random.default_rng([config.seed, n])
        made = scorecard.rejection_sample(card, example, rng, config.variants)
        if made is not None:
            kept.append([n, made.theme, list(made.points), list(made.order)])
    themes = [entry[1] for entry in kept]
    report = {
        **lists.report,
        "traces_kept": len(kept),
        "traces_kept_share": len(kept) / len(lists.train),
        "themes": {theme: themes.count(theme) / max(1, len(themes)) for theme in scorecard.THEMES},
    }
    _dump(out / "catalogue.json", lists.catalogue.to_json())
    for split in ("train", "validation", "test"):
        _dump(out / f"{split}.json", [example.to_json() for example in getattr(lists, split)])
    _dump(out / "scorecard.json", card.to_json())
    _dump(out / "traces.json", kept)
    _dump(out / "report.json", report)
    return {"train": len(lists.train), "traces_kept": len(kept)}


def read_world(path: Path) -> World:
    """Inverse of `build_world`."""
    catalogue = Catalogue.from_json(_parse(path / "catalogue.json"))
    splits = {
        split: [Example.from_json(entry, catalogue) for entry in _parse(path / f"{split}.json")]
        for split in ("train", "validation", "test")
    }
    traces = [
        (n, Trace(theme, tuple(points), tuple(order)))
        for n, theme, points, order in _parse(path / "traces.json")
    ]
    card = Scorecard.from_json(_parse(path / "scorecard.json"))
    return World(catalogue, **splits, card=card, traces=traces, report=_parse(path / "report.json"))


def _dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, separators=(",", ":")) + "\n", encoding="utf-8")


def _parse(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
