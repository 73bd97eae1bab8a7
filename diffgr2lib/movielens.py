"""MovieLens-100k as a folder of your own data, read from an installed RecBole.

RecBole's wheel carries the ratings (GroupLens, for research use); nothing is downloaded, and the
kit ships none of it: ``pip install --no-deps recbole``.
"""

import csv
import importlib.util
import json
from pathlib import Path

from diffgr2lib.data.folder import ITEMS, SEQUENCES, SHORTEST
from diffgr2lib.errors import DataError

PLACE = Path("dataset_example", "ml-100k")
LIKED = 4.0  # ratings from here on count as a choice of the user


def installed() -> Path:
    """The folder in RecBole. Raises `DataError` that says what to install."""
    found = importlib.util.find_spec("recbole")
    for place in (found.submodule_search_locations or []) if found else []:
        if (Path(place) / PLACE / "ml-100k.inter").is_file():
            return Path(place) / PLACE
    raise DataError(
        "MovieLens-100k is read from the package recbole, which is not installed"
        " (pip install --no-deps recbole)."
    )


def rows(path: Path) -> list[dict[str, str]]:
    """A RecBole table: tab-separated, each column named `name:kind`. Raises `DataError`."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            found = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            names = [column.split(":")[0] for column in next(found)]
            return [dict(zip(names, row, strict=True)) for row in found if row]
    except (OSError, ValueError, StopIteration) as error:
        raise DataError(f"{path} cannot be read as a table of RecBole ({error!r}).") from error


def write_movielens(folder: Path, source: Path | None = None) -> tuple[int, int]:
    """Write items.jsonl and sequences.txt; returns the numbers of items and users.

    A user's sequence is what he rated 4 or 5, by time (ties by film). The first genre is the
    category, the release decade stands where a brand would.
    """
    source = source or installed()
    liked: dict[str, list[tuple[float, int]]] = {}
    for row in rows(source / "ml-100k.inter"):
        if float(row["rating"]) >= LIKED:
            when = (float(row["timestamp"]), int(row["item_id"]))
            liked.setdefault(row["user_id"], []).append(when)
    chosen = {user: sorted(bought) for user, bought in liked.items() if len(bought) >= SHORTEST}
    films = {int(row["item_id"]): row for row in rows(source / "ml-100k.item")}
    used = sorted({film for bought in chosen.values() for _, film in bought})
    number = {film: n for n, film in enumerate(used, start=1)}
    items = []
    for film in used:
        row = films[film]
        year, genres = row["release_year"], row["class"].split()
        item = {"id": number[film], "title": row["movie_title"], "categories": [genres[:1]]}
        item["brand"] = f"{year[:3]}0s" if year[:4].isdigit() else ""
        items.append(json.dumps(item if genres else {**item, "categories": []}))
    lines = [
        " ".join([user, *(str(number[film]) for _, film in bought)])
        for user, bought in sorted(chosen.items(), key=lambda one: int(one[0]))
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ITEMS).write_text("\n".join(items) + "\n", encoding="utf-8")
    (folder / SEQUENCES).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(items), len(lines)
