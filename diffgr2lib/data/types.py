"""What every later part sees of the data: items, sequences and candidate lists."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from diffgr2lib.errors import DataError


@dataclass(frozen=True, slots=True)
class Item:
    """One item. id counts from 1. sid: one code per level. brand and category: "" where missing
    (missing never matches missing). price: tier from 0, -1 where unknown."""

    id: int
    sid: tuple[int, ...]
    title: str
    brand: str
    category: str
    price: int = -1


@dataclass(frozen=True)
class Catalogue:
    """All items, items[i].id == i + 1, and the codebook size of each SID level."""

    items: tuple[Item, ...]
    sid_levels: tuple[int, ...]

    def item(self, item_id: int) -> Item:
        """The item with this id (1 to number of items)."""
        return self.items[item_id - 1]

    @cached_property
    def by_sid(self) -> dict[tuple[int, ...], tuple[int, ...]]:
        """Ids of the items that carry each semantic id."""
        found: dict[tuple[int, ...], tuple[int, ...]] = {}
        for item in self.items:
            found[item.sid] = (*found.get(item.sid, ()), item.id)
        return found

    def to_json(self) -> dict[str, Any]:
        """Rows of item fields in the order of `Item`, and the codebook sizes."""
        rows = [[i.id, list(i.sid), i.title, i.brand, i.category, i.price] for i in self.items]
        return {"items": rows, "sid_levels": list(self.sid_levels)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Inverse of `to_json`."""
        items = tuple(Item(i, tuple(sid), *rest) for i, sid, *rest in data["items"])
        return cls(items, tuple(data["sid_levels"]))


@dataclass(frozen=True)
class Dataset:
    """Purchases by user, item ids oldest first: .., validation item, test item."""

    name: str
    catalogue: Catalogue
    sequences: dict[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate and the retriever-side evidence that the prompt shows, as buckets.

    score 0..5: the retriever's score within its list. follow 0..3: how often the item followed the
    last purchase. complement 0..3: how strongly its category follows the last purchase's.
    popularity 0..3: quartile.
    """

    item: Item
    score: int
    follow: int
    complement: int
    popularity: int


@dataclass(frozen=True, slots=True)
class Example:
    """One re-ranking task: everything the prompt shows, and the answer key.

    history: the most recent purchases shown, oldest first. candidates: in the retriever's order.
    target: index of the item bought next among the candidates, -1 where it is not there.
    """

    user: int
    history: tuple[Item, ...]
    candidates: tuple[Candidate, ...]
    target: int
    split: str

    def to_json(self) -> dict[str, Any]:
        """Ids and buckets only."""
        return {
            "user": self.user,
            "history": [item.id for item in self.history],
            "candidates": [
                [c.item.id, c.score, c.follow, c.complement, c.popularity] for c in self.candidates
            ],
            "target": self.target,
            "split": self.split,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any], catalogue: Catalogue) -> Self:
        """Inverse of `to_json`, over the same catalogue. Raises `DataError` for an item twice."""
        named = [row[0] for row in data["candidates"]]
        twice = sorted({one for one in named if named.count(one) > 1})
        if twice:
            raise DataError(
                f"User {data['user']} has item {twice[0]} among the candidates more than once; a"
                " ranking names each once. Mend the candidate list."
            )
        return cls(
            data["user"],
            tuple(catalogue.item(i) for i in data["history"]),
            tuple(Candidate(catalogue.item(i), *rest) for i, *rest in data["candidates"]),
            data["target"],
            data["split"],
        )
