"""The third level of baselines: `torch.compile` over a static cache, for AR and block decoding.

A pass reads the whole preallocated cache, what is not stored hidden by the mask, and always takes
every row, so a decoding call meets two or three shapes in all. On a GPU the passes become CUDA
graphs. The decoding loops are the ones that run uncompiled; only `Policy.forward` differs.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from diffgr2lib.model.cache import BlockCache, cache_argument
from diffgr2lib.model.policy import ColumnIndex, Policy, score

Pass = Callable[..., Tensor]


class StaticView:
    """A cache of fixed shape for one pass: writes at the columns `at`, shows all columns."""

    def __init__(self, store: Tensor, at: Tensor) -> None:
        self.store, self.at = store, at

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Write [rows, heads, Q, width] in place; the whole store of the layer."""
        kept_keys, kept_values = self.store[layer, 0], self.store[layer, 1]
        kept_keys.index_copy_(2, self.at, keys)
        kept_values.index_copy_(2, self.at, values)
        return kept_keys, kept_values

    def get_seq_length(self, layer: int = 0) -> int:
        """As transformers asks for it; positions and mask are given, so nothing depends on it."""
        return 0


def static_pass(
    model: PreTrainedModel,
    cache: str,
    ids: Tensor,
    positions: Tensor,
    attention: Tensor,
    store: Tensor,
    at: Tensor,
    columns: slice,
) -> Tensor:
    """Logits of ids [N, Q] at `columns`, attention [N or 1, 1, Q, capacity].

    cache: what the model calls the argument for its cache.
    """
    hidden = model.base_model(
        input_ids=ids,
        attention_mask=attention,
        position_ids=positions,
        use_cache=False,
        **{cache: StaticView(store, at)},
    ).last_hidden_state
    return model.get_output_embeddings()(hidden[:, columns])


@dataclass(frozen=True, slots=True)
class CompiledPolicy(Policy):
    """A policy whose cached passes are compiled. Prefills, whose lengths differ, are not."""

    run: Pass = static_pass

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        attention: Any,
        cache: BlockCache | None = None,
        columns: ColumnIndex = None,
    ) -> Tensor:
        """See `Policy.forward`. Rows that wait or have left take part, unread."""
        if cache is None or cache.length == 0:
            return score(self.model, input_ids, position_ids, attention, cache, columns)
        (n, Q), N, capacity = input_ids.shape, cache.store.shape[2], cache.store.shape[4]
        rows, spare = N - n, capacity - attention.shape[-1]
        pad = torch.nn.functional.pad
        attention = pad(attention, (0, spare), value=float("-inf"))
        if rows and len(attention) > 1:
            attention = torch.cat([attention, attention[:1].expand(rows, -1, -1, -1)])
        at = torch.arange(cache.length, cache.length + Q, device=input_ids.device)
        ids, positions = (pad(one, (0, 0, 0, rows)) for one in (input_ids, position_ids))
        name = cache_argument(type(self.model.base_model).forward)
        asked = slice(0, Q) if columns is None else columns
        if input_ids.is_cuda:
            torch.compiler.cudagraph_mark_step_begin()
        given = (ids, positions, attention.contiguous(), cache.store, at, asked)
        logits = self.run(self.model, name, *given)
        return logits[:n].clone()  # the loops write into it, and a CUDA graph's output is reused


def compiled(policy: Policy, backend: str = "inductor") -> CompiledPolicy:
    """The same weights with compiled passes. Each new shape compiles once, in its first call.

    backend: of torch.compile; "eager" traces and compiles nothing. Serves `decode_ar` and block
    decoding; lossless decoding writes each row at columns of its own and stays uncompiled.
    """
    options: dict[str, Any] = {"backend": backend, "dynamic": False}
    if backend == "inductor" and policy.device.type == "cuda":
        options["mode"] = "reduce-overhead"
    run = torch.compile(static_pass, **options)
    given = {one.name: getattr(policy, one.name) for one in fields(Policy)}
    return CompiledPolicy(**given, run=run)
