"""What a training stage minimises: rows for each step, and the loss of a part of them.

A batch is a function of (seed, step) alone, so a killed run needs no data position beyond its step.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from diffgr2lib.model.columns import (
    Columns,
    autoregressive_columns,
    build_columns,
    supervising_columns,
)
from diffgr2lib.model.policy import Policy
from diffgr2lib.train.corruption import complementary_masks, corrupt
from diffgr2lib.train.losses import hits, weighted_cross_entropy
from diffgr2lib.train.rows import Batch, Row, collate

Score = Callable[..., Tensor]
B = TypeVar("B", bound="Rows")


class Rows(Protocol):
    """The rows of a step, as the loop sees them.

    weights: of every supervised token; the step's loss is divided by their sum. keys: what each row
    was made from. report: figures for the log that were known before the loss.
    """

    @property
    def weights(self) -> Tensor: ...  # noqa: D102

    @property
    def keys(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def report(self) -> dict[str, float]: ...  # noqa: D102

    def part(self, rows: slice, device: torch.device) -> Self:
        """Some of the rows, on a device."""
        ...


class Drawn(Protocol):
    """Rows that are made as they are needed, such as mid-training's."""

    def draw(self, rng: np.random.Generator, key: str) -> Row:
        """One row."""
        ...


class Objective(Protocol[B]):
    """A stage's data and loss, as the loop sees them."""

    def batch(self, step: int) -> B:
        """All rows of optimizer step `step`, on the CPU."""
        ...

    def loss(self, score: Score, batch: B) -> tuple[Tensor, dict[str, float]]:
        """Weighted loss sum of some rows, and sums for the log.

        A sum `x` with a count `x_n` beside it is logged as their mean.
        """
        ...


def walk(seed: int, step: int, size: int, total: int) -> list[int]:
    """Indices of a step's `size` rows out of `total`: seeded permutations, a new one each epoch."""
    chosen: list[int] = []
    place = step * size
    while len(chosen) < size:
        epoch, start = divmod(place + len(chosen), total)
        order = np.random.default_rng([seed, epoch, 1]).permutation(total)
        chosen += order[start : start + size - len(chosen)].tolist()
    return chosen


class Supervised:
    """AR training (`diffusion` False: mid-training, SFT) or conversion fine-tuning (True).

    rows: training rows, visited in a new seeded order every epoch. dictionary: adds `share` of
    mid-training rows to each batch (all of it when rows is empty). ar_weight: weight of the AR
    co-loss on the clean columns (causal context only).
    """

    def __init__(
        self,
        policy: Policy,
        rows: Sequence[Row],
        batch: int,
        seed: int,
        diffusion: bool = False,
        dictionary: Drawn | None = None,
        share: float = 0.0,
        ar_weight: float = 0.0,
    ) -> None:
        self.policy, self.rows, self.size, self.seed = policy, rows, batch, seed
        self.diffusion, self.dictionary, self.ar_weight = diffusion, dictionary, ar_weight
        self.drawn = 0 if dictionary is None else batch if not rows else round(share * batch)
        self.block_size = policy.block_size if diffusion else 1
        self.context = policy.context if diffusion else "causal"

    def batch(self, step: int) -> Batch:
        """The step's rows; with `diffusion` also their masks and complements."""
        rng = np.random.default_rng([self.seed, step])
        rows = [self.rows[i] for i in walk(self.seed, step, self.size - self.drawn, len(self.rows))]
        if self.dictionary is not None:
            rows += [self.dictionary.draw(rng, f"{step}.{i}") for i in range(self.drawn)]
        policy = self.policy
        batch = collate(rows, policy.pad_token_id, policy.eos_token_id, self.block_size)
        if not self.diffusion:
            return batch
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        masks = complementary_masks(batch.response_mask, self.block_size, generator)
        return replace(batch, masks=masks)

    def loss(self, score: Score, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """See `Objective.loss`."""
        noisy = None
        if batch.masks is not None:
            noisy = corrupt(batch.response, batch.masks, self.policy.mask_token_id)
        columns = build_columns(
            batch.prompt,
            batch.prompt_mask,
            batch.response,
            batch.response_mask,
            noisy,
            self.block_size,
            self.context,
            dtype=self.policy.dtype,
        )
        if batch.masks is None:
            return _autoregressive(score, columns, batch)
        logits = _scored(score, columns, supervising_columns(columns, batch.masks), batch)
        loss, sums = _sums(logits, batch)
        if self.ar_weight:
            co_loss, _ = _sums(
                _scored(score, columns, autoregressive_columns(columns), batch), batch
            )
            loss = loss + self.ar_weight * co_loss
        return loss, sums


def _autoregressive(
    score: Score, columns: Columns, batch: Batch
) -> tuple[Tensor, dict[str, float]]:
    return _sums(_scored(score, columns, autoregressive_columns(columns), batch), batch)


def _scored(score: Score, columns: Columns, at: Tensor, batch: Batch) -> Tensor:
    """Logits [M, V] of the supervised response tokens, read at the columns `at` ([L] or [N, L])."""
    N, L = batch.response.shape
    picked = at.expand(N, L)
    return score(columns.input_ids, columns.position_ids, columns.attention, columns=picked)[
        batch.weights > 0
    ]


def _sums(logits: Tensor, batch: Batch) -> tuple[Tensor, dict[str, float]]:
    used = batch.weights > 0
    targets = batch.response[used]
    loss = weighted_cross_entropy(logits, targets, batch.weights[used])
    count = float(used.sum())
    right = float(hits(logits, targets).sum())
    return loss, {"tokens": count, "accuracy": right, "accuracy_n": count}
