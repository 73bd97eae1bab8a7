"""The key/value store: allocated once, written in place, and the one place that knows its callers.

Models call `update` in every attention layer. A forward pass always writes behind the stored
columns; `advance` then keeps what it wrote, and not calling it is how a canvas leaves no trace.
"""

import inspect
from collections.abc import Callable
from functools import cache as memoize

import torch
from torch import Tensor
from transformers import PretrainedConfig

BUCKET = 64


@memoize
def cache_argument(forward: Callable[..., object]) -> str:
    """Name of a model's forward argument for the cache (renamed in transformers 5.24)."""
    names = inspect.signature(forward).parameters
    return "cache" if "cache" in names else "past_key_values"


class BlockCache:
    """Keys and values of N rows for up to `capacity` columns, on one tensor, heads first.

    The capacity is rounded up to whole buckets, so that compiled passes over all of it meet few
    shapes. Columns not yet written hold zeros: a NaN would spoil a sum from behind the mask.
    Rows live in slots. `rows` says how many leading slots take part in the next forward pass, so
    that a row which waits or has left costs nothing and no key or value is copied per step.
    """

    def __init__(
        self,
        config: PretrainedConfig,
        rows: int,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        capacity = -(-capacity // BUCKET) * BUCKET
        shape = (config.num_hidden_layers, 2, rows, heads, capacity, width)
        self.store = torch.zeros(shape, dtype=dtype, device=device)
        self.rows = rows
        self.length = 0

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Write [rows, heads, Q, width] behind the stored columns; views of stored plus written."""
        stop = self.length + keys.shape[2]
        written = self.store[layer, :, : self.rows, :, self.length : stop]
        written[0].copy_(keys)
        written[1].copy_(values)
        seen = self.store[layer, :, : self.rows, :, :stop]
        return seen[0], seen[1]

    def advance(self, columns: int) -> None:
        """Keep the first `columns` of what the last forward pass wrote."""
        self.length += columns

    def move(self, source: Tensor, target: Tensor) -> None:
        """Copy the stored columns of slots `source` to slots `target` (long [M]), all at once."""
        stored = self.store[:, :, :, :, : self.length]
        stored[:, :, target] = stored[:, :, source]

    def get_seq_length(self, layer: int = 0) -> int:
        """Number of stored columns, as transformers asks for it."""
        return self.length
