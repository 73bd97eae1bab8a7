"""Your own data: `python -m diffgr2lib.data check DIR` reads it and says what it makes of it.

`sample DIR` writes a small folder in the right format, to look at and to try the kit on;
`movielens DIR` writes MovieLens-100k from an installed RecBole.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diffgr2lib.config import DataConfig
from diffgr2lib.data.folder import ITEMS, SEQUENCES
from diffgr2lib.data.lists import build_lists, read_dataset
from diffgr2lib.data.toy import make_toy
from diffgr2lib.data.types import Dataset
from diffgr2lib.errors import ConfigError, KitError
from diffgr2lib.movielens import write_movielens


def described(dataset: Dataset, report: dict[str, Any]) -> list[tuple[str, str]]:
    """What was read, as lines of a name and a value."""
    items = dataset.catalogue.items
    lengths = np.array([len(sequence) for sequence in dataset.sequences.values()])
    known = {
        "titles": [item.title for item in items],
        "brands": [item.brand for item in items],
        "categories": [item.category for item in items],
    }
    prefixes = {item.sid[:-1] for item in items}
    levels = " x ".join(map(str, dataset.catalogue.sid_levels))
    lines = [
        ("users", str(len(lengths))),
        ("items", str(len(items))),
        ("purchases", f"{lengths.sum()}, {np.median(lengths):.0f} a user (median)"),
        *((f"items with {name}", f"{np.mean([bool(v) for v in values]):.0%}")
          for name, values in known.items()),
        ("semantic ids", f"{levels} codes, {len(prefixes)} groups above the last level"),
    ]  # fmt: skip
    for split in ("train", "validation", "test"):
        part = report[split]
        lines.append(
            (
                f"{split} lists",
                f"{part['lists']} of {part['queries']} queries hold their item in the top 10"
                f" ({part['hit_rate']:.1%}); floor Recall@1 {part['floor_recall@1']:.3f}",
            )
        )
    return lines


def check(folder: Path) -> None:
    """Read, rank and print; raises `DataError` with file and line for what is wrong."""
    config = DataConfig(source="folder", path=str(folder), sid_levels=3, codes=64)
    dataset, _ = read_dataset(config)
    report = build_lists(dataset, config).report
    for name, value in described(dataset, report):
        print(f"{name:24} {value}")
    few = [split for split in ("train", "test") if report[split]["lists"] < 200]
    if few:
        print(f"note: fewer than 200 {' and '.join(few)} lists: intervals will be wide.")
    print(f"\nThis folder can be used:\n  python -m diffgr2lib.reproduce --preset folder:{folder}")


def sample(folder: Path) -> None:
    """Write 300 items and 500 users of a generated shop, without semantic ids."""
    _refuse_full(folder)
    dataset = make_toy(DataConfig(users=500, items=300, codes=32)).dataset
    folder.mkdir(parents=True, exist_ok=True)
    items = [
        {
            "id": item.id, "title": item.title, "brand": item.brand,
            "categories": [[item.category]] if item.category else [], "price": item.price,
        }
        for item in dataset.catalogue.items
    ]  # fmt: skip
    rows = [[user, *bought] for user, bought in dataset.sequences.items()]
    _lines(folder / ITEMS, [json.dumps(item) for item in items])
    _lines(folder / SEQUENCES, [" ".join(map(str, row)) for row in rows])
    print(f"{folder}: {len(items)} items, {len(rows)} users")


def movielens(folder: Path) -> None:
    """Write MovieLens-100k."""
    _refuse_full(folder)
    items, users = write_movielens(folder)
    print(f"{folder}: {items} items, {users} rows")


def _refuse_full(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty; name a new folder.")


def _lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 if the folder can be used."""
    parser = argparse.ArgumentParser("diffgr2lib.data", description=__doc__)
    parser.add_argument("command", choices=("check", "sample", "movielens"))
    parser.add_argument("folder", type=Path)
    given = parser.parse_args(arguments)
    try:
        {"check": check, "sample": sample, "movielens": movielens}[given.command](given.folder)
    except KitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {given.folder} cannot be used ({error.strerror}).", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
