"""A key/value store whose rows have lengths of their own, for rows that advance unequally.

Response token t of a row always lies in column P + t, so nothing is ever moved within a row: a
rejected token's column is written again by the pass that corrects it.
"""

import torch
from torch import Tensor
from transformers import PretrainedConfig

from diffgr2lib.model.cache import BlockCache


class RowCache(BlockCache):
    """`BlockCache` in which each pass names the column where each row's writing begins.

    Columns that a row has not written hold zeros or an older pass's values, so a pass must hide
    them (`limits` does); zeros from the start keep a hidden column from being a NaN.
    """

    def __init__(
        self,
        config: PretrainedConfig,
        rows: int,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__(config, rows, capacity, dtype, device)
        self.index: Tensor | None = None

    def place(self, first: Tensor, low: int, high: int, width: int) -> int:
        """Begin a pass of `width` columns, from column first [rows] on; the columns it can see.

        low and high are the least and greatest of `first`, known to the host.
        """
        self.length, self.stop = low, high + width
        self.index = None
        if low < high:
            columns = first[:, None] + torch.arange(width, device=first.device)
            self.index = columns[:, None, :, None]  # [rows, 1, width, 1]
        return self.stop

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Write [rows, heads, Q, width] at each row's columns; views of all that can be seen."""
        if self.index is None:
            return super().update(keys, values, layer)
        seen = self.store[layer, :, : self.rows, :, : self.stop]
        index = self.index.expand(keys.shape)
        seen[0].scatter_(2, index, keys)
        seen[1].scatter_(2, index, values)
        return seen[0], seen[1]

    def move(self, source: Tensor, target: Tensor) -> None:
        """Copy slots `source` to slots `target` (long [M]), all at once."""
        stored = self.store[:, :, :, :, : self.stop]
        stored[:, :, target] = stored[:, :, source]


def limits(start: Tensor, clean: Tensor, canvas: int, width: int) -> Tensor:
    """How many columns each query sees: long [N, width], for passes of guesses, then a canvas.

    start [N]: the columns stored before the pass. clean [N]: each row's guessed tokens, which see
    those before them and themselves; the `canvas` columns after them see all of both. Columns after
    a row's canvas are filling and see what the canvas sees.
    """
    place = torch.arange(width, device=start.device)
    inside = torch.where(place < clean[:, None], place + 1, clean[:, None] + canvas)
    return start[:, None] + inside
