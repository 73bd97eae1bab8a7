"""Which rows still work: rows sit in cache slots, the working ones first, those that left last."""

import torch
from torch import Tensor

from diffgr2lib.model.cache import BlockCache

WORKING, WAITING, LEFT = 0, 1, 2


class Slots:
    """Order of the rows in the cache. A row that waits or leaves swaps places; others stay put."""

    def __init__(self, cache: BlockCache) -> None:
        self.cache = cache
        self.order = list(range(cache.rows))
        self.working = self.alive = cache.rows
        self.rows = self._tensor(self.working)

    def _tensor(self, count: int) -> Tensor:
        self.cache.rows = count
        return torch.tensor(self.order[:count], device=self.cache.store.device)

    def wake(self) -> Tensor:
        """All rows that have not left work again; their numbers, in slot order."""
        self.working = self.alive
        self.rows = self._tensor(self.working)
        return self.rows

    def update(self, states: list[int]) -> Tensor:
        """Take the new state of each working row (slot order); the rows that still work."""
        if not any(states):
            return self.rows
        groups = states + [WAITING] * (self.alive - self.working)
        self.working = groups.count(WORKING)
        self.alive -= groups.count(LEFT)
        wanted = [WORKING] * self.working + [WAITING] * (self.alive - self.working)
        wanted += [LEFT] * (len(groups) - len(wanted))
        displaced = [slot for slot, group in enumerate(groups) if group != wanted[slot]]
        source = sorted(displaced, key=lambda slot: groups[slot])
        target = sorted(displaced, key=lambda slot: wanted[slot])
        before = list(self.order)
        for old, new in zip(source, target, strict=True):
            self.order[new] = before[old]
        moves = [(s, t) for s, t in zip(source, target, strict=True) if groups[s] != LEFT]
        if moves:
            pairs = torch.tensor(moves, device=self.cache.store.device)
            self.cache.move(pairs[:, 0], pairs[:, 1])
        self.rows = self._tensor(self.working)
        return self.rows
