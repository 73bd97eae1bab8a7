"""Reader of a folder with `items.jsonl` and `sequences.txt`, such as Amazon Beauty.

items.jsonl: one item a line with `id` (1 to number of items, any order), and where known `sid`
("<a_3><b_7>..", for all items or for none), `title`, `brand`, `categories` (list of paths), `price`
(tier from 0). Without `sid` they are made, from `vectors.npy` or from the texts (`data.vectors`).
sequences.txt: one user a line, `user item item ..`, oldest first, item ids as in items.jsonl.
Every complaint names file and line.
"""

import dataclasses
import hashlib
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffgr2lib.data.semantic_ids import make_unique, residual_codes
from diffgr2lib.data.types import Catalogue, Dataset, Item
from diffgr2lib.data.vectors import VECTORS, item_vectors
from diffgr2lib.errors import DataError

logger = logging.getLogger(__name__)

ITEMS, SEQUENCES = "items.jsonl", "sequences.txt"
SHORTEST = 3  # one item each for training, validation and test
SID = re.compile(r"(?:<[a-h]_\d{1,6}>){1,8}")
LEVELS = "abcdefgh"
NUMBER = re.compile(r"[0-9]{1,18}")
Complain = Callable[[int, str], DataError]


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a complete folder holds."""

    users: int
    items: int
    purchases: int


@dataclass(frozen=True, slots=True)
class Codebooks:
    """Semantic ids to make where a folder brings none: levels, codes a level, seed.

    The last level has more codes where more items share a prefix.
    """

    levels: int = 3
    codes: int = 64
    seed: int = 0


BEAUTY = Counts(users=22_363, items=12_101, purchases=198_502)


def find_beauty(path: str = "") -> Path:
    """The Beauty folder: `path`, else DIFFGR2_DATA, data/beauty, ../shared/data/beauty.

    The last two start at the project's root: the nearest folder with a pyproject.toml above the
    current folder, or above this package. Raises `DataError` that says what to put where.
    """
    named = path or os.environ.get("DIFFGR2_DATA", "")
    above = (*Path.cwd().joinpath("x").parents, *Path(__file__).resolve().parents)
    roots = [p for p in above if (p / "pyproject.toml").is_file()] or [Path.cwd()]
    inside, beside = Path("data", "beauty"), Path("shared", "data", "beauty")
    places = [Path(named)] if named else [p for r in roots for p in (r / inside, r.parent / beside)]
    for place in places:
        if (place / ITEMS).is_file() and (place / SEQUENCES).is_file():
            return place
    raise DataError(
        f"Amazon Beauty was not found in {' or '.join(map(str, dict.fromkeys(places)))}."
        f" Put {ITEMS} and {SEQUENCES} into {roots[0] / inside}, or set DIFFGR2_DATA to the folder"
        " that holds them."
    )


def read_beauty(path: str | Path, brands_shown: int = 512) -> Dataset:
    """Amazon Beauty (2014, 5-core), its counts checked."""
    return read_folder(path, BEAUTY, brands_shown, "beauty")


def read_folder(
    path: str | Path,
    expect: Counts | None = None,
    brands_shown: int = 512,
    name: str = "",
    codebooks: Codebooks | None = None,
) -> Dataset:
    """Read and check a folder. Brands beyond the `brands_shown` most frequent become "".

    Items whose semantic id is taken move to the nearest free code of the last level. Raises
    `DataError` with file and line for whatever is wrong, and where `expect` is not met.
    """
    folder = Path(path)
    items = read_items(folder / ITEMS)
    sequences = read_sequences(folder / SEQUENCES, len(items))
    found = Counts(len(sequences), len(items), sum(map(len, sequences.values())))
    if expect is not None and found != expect:
        raise DataError(
            f"{folder}: {found.users} users, {found.items} items and {found.purchases} purchases"
            f" where {expect.users}, {expect.items} and {expect.purchases} belong; a file is cut"
            " short or of another data set. Fetch both files again."
        )
    made, size = [item.sid for item in items], None
    if not made[0]:
        books = codebooks or Codebooks()
        made = residual_codes(item_vectors(folder, items), books.levels, books.codes, books.seed)
        groups = Counter(sid[:-1] for sid in made)
        size = max(books.codes, *groups.values())  # room for all that share a prefix
        logger.info("%s: semantic ids made, %d of %d apart", folder.name, len(set(made)), len(made))
    sids, moved = make_unique(made, size)
    if moved:
        logger.info("%s: %d items moved to a semantic id of their own", folder.name, moved)
    kept = frequent_brands(items, brands_shown)
    shown = tuple(
        dataclasses.replace(item, sid=sid, brand=item.brand if item.brand in kept else "")
        for item, sid in zip(items, sids, strict=True)
    )
    levels = tuple(max(codes) + 1 for codes in zip(*sids, strict=True))
    return Dataset(name or folder.name, Catalogue(shown, levels), sequences)


def fingerprint(path: str | Path) -> dict[str, str]:
    """Hash of each file of a folder that is read. Raises `DataError` where one cannot be."""
    found = {}
    for name in (ITEMS, SEQUENCES, VECTORS):
        file = Path(path) / name
        try:
            found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
        except FileNotFoundError:
            if name != VECTORS:
                raise missing(file) from None
        except OSError as error:
            raise DataError(f"{file} cannot be read ({error.strerror}).") from None
    return found


def missing(file: Path) -> DataError:
    """The complaint about a file that is not there."""
    return DataError(f"{file} is missing; the folder must hold {ITEMS} and {SEQUENCES}.")


def frequent_brands(items: list[Item], most: int) -> set[str]:
    """The `most` brands with the most items; ties in alphabetical order."""
    counts = Counter(item.brand for item in items if item.brand)
    ordered = sorted(counts, key=lambda brand: (-counts[brand], brand))
    return set(ordered[:most])


def read_items(path: Path) -> list[Item]:
    """Items by id, every id from 1 to their number once, one SID depth for all (or no SIDs)."""
    items: dict[int, Item] = {}
    depth = -1
    for complain, number, line in lines(path):
        item = parse_item(line, number, complain)
        if item.id in items:
            raise complain(number, f"item {item.id} stands here a second time; remove one.")
        depth = len(item.sid) if depth < 0 else depth
        if len(item.sid) != depth:
            raise complain(
                number, f"'sid' has {len(item.sid)} levels, the items before it {depth}."
            )
        items[item.id] = item
    lacking = next((i for i in range(1, len(items) + 1) if i not in items), None)
    if lacking is not None or not items:
        raise DataError(
            f"{path}: {len(items)} items, but none with id {lacking or 1}; ids must run from 1 to"
            " the number of items."
        )
    return [items[i] for i in range(1, len(items) + 1)]


def parse_item(line: str, number: int, complain: Complain) -> Item:
    """One line of items.jsonl."""
    try:
        data: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise complain(number, f"this is no JSON ({error}).") from None
    if not isinstance(data, dict):
        raise complain(number, 'an item is a JSON object, {"id": 1, "sid": "<a_3><b_7>", ..}.')
    item_id, sid = data.get("id"), data.get("sid")
    if type(item_id) is not int or item_id < 1:
        raise complain(number, f"'id' is {item_id!r}; give a whole number from 1.")
    if sid is not None and (not isinstance(sid, str) or not SID.fullmatch(sid)):
        raise complain(
            number,
            f"'sid' is {sid!r}; write it as '<a_3><b_7>', one code a level, or leave it out of all"
            " items.",
        )
    levels = re.findall(r"<([a-h])_(\d+)>", sid or "")
    if "".join(letter for letter, _ in levels) != LEVELS[: len(levels)]:
        raise complain(number, f"'sid' is {sid!r}; its levels must be a, b, c .. in this order.")
    title, brand, paths = data.get("title", ""), data.get("brand", ""), data.get("categories", [])
    if not isinstance(title, str) or not isinstance(brand, str):
        raise complain(number, "'title' and 'brand' must be strings; leave unknown ones empty.")
    try:
        category = paths[0][-1] if paths else ""
    except (TypeError, IndexError, KeyError):
        category = None
    if not isinstance(paths, list) or not isinstance(category, str):
        raise complain(number, "'categories' must be a list of paths, each a list of names.")
    if re.search("[\ud800-\udfff]", title + brand + category):
        raise complain(number, "a text holds half of a UTF-16 pair, which is no character.")
    price = data.get("price", -1)
    if type(price) is not int or price < -1:
        raise complain(number, f"'price' is {price!r}; give a tier from 0, or leave it out.")
    brand = "" if brand == "Unknown" else brand
    return Item(item_id, tuple(int(code) for _, code in levels), title, brand, category, price)


def read_sequences(path: Path, items: int) -> dict[int, tuple[int, ...]]:
    """Purchases by user, at least `SHORTEST` each, of items 1 to `items`."""
    sequences: dict[int, tuple[int, ...]] = {}
    for complain, number, line in lines(path):
        words = line.split()
        bad = next((word for word in words if not NUMBER.fullmatch(word)), None)
        if bad is not None:
            raise complain(number, f"{bad!r} is no whole number; write 'user item item ..'.")
        user, *bought = map(int, words)
        if user in sequences:
            raise complain(number, f"user {user} stands here a second time; join the two lines.")
        unknown = next((item for item in bought if not 1 <= item <= items), None)
        if unknown is not None:
            raise complain(number, f"item {unknown} is not in {ITEMS}, whose ids end at {items}.")
        if len(bought) < SHORTEST:
            raise complain(
                number,
                f"user {user} has {len(bought)} purchases; at least {SHORTEST} are needed"
                " (training, validation, test). Leave the user out.",
            )
        sequences[user] = tuple(bought)
    if not sequences:
        raise DataError(f"{path}: no user; write one a line, 'user item item ..'.")
    return sequences


def lines(path: Path) -> Iterator[tuple[Complain, int, str]]:
    """Numbered lines that are not blank, and a maker of complaints about them."""

    def complain(number: int, what: str) -> DataError:
        return DataError(f"{path}, line {number}: {what}")

    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise missing(path) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        number = path.read_bytes()[: error.start].count(b"\n") + 1
        raise complain(number, "this is not UTF-8; save the file as UTF-8.") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield complain, number, line.strip()
