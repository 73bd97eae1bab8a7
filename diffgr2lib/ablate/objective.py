"""Conversion fine-tuning with any `Masking`; with the defaults it is `Supervised` itself."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from diffgr2lib.ablate.balance import label_places, over_full
from diffgr2lib.ablate.masking import Masking, draw_masks, grown
from diffgr2lib.model.columns import Columns, autoregressive_columns, build_columns
from diffgr2lib.train.corruption import corrupt
from diffgr2lib.train.losses import hits, weighted_cross_entropy
from diffgr2lib.train.objectives import Score, Supervised
from diffgr2lib.train.rows import Batch, Row, collate


@dataclass(frozen=True, slots=True)
class Draw:
    """Rows, a weight for each token of each noisy copy [N, C, L], and the step's block size."""

    rows: Batch
    weights: Tensor
    block_size: int

    @property
    def keys(self) -> tuple[str, ...]:
        """What the rows were made from."""
        return self.rows.keys

    @property
    def report(self) -> dict[str, float]:
        """The block size, for the log."""
        return {"block_size": float(self.block_size)}

    def part(self, rows: slice, device: torch.device) -> "Draw":
        """Some rows, on a device."""
        cut = self.rows.part(rows, device)
        weights = self.weights[rows, :, : cut.response.shape[1]].to(device)
        return Draw(cut, weights, self.block_size)


class Varied:
    """CFT under another masking.

    base: the stage's own objective, whose rows it takes. steps: of the stage (for `grow`). labels:
    token ids of the candidates' labels. answer_weight: what tells answer tokens from trace tokens.
    """

    def __init__(
        self, base: Supervised, masking: Masking, steps: int, labels: list[int], answer: float
    ) -> None:
        self.base, self.masking, self.steps, self.answer = base, masking, steps, answer
        self.labels = torch.tensor(labels)

    def batch(self, step: int) -> Draw:
        """The rows of the step's CFT batch, masked anew where the masking is not the kit's."""
        base, masking, B = self.base, self.masking, self.base.block_size
        rows = base.batch(step)
        if masking.whole_grid:
            rows = regrid(rows, B, base.policy.pad_token_id, base.policy.eos_token_id)
        size = grown(B, step, self.steps) if masking.grow else B
        if rows.masks is not None and not masking.whole_answer and size == B:
            if masking.pair and masking.law == "uniform":
                return Draw(rows, rows.weights[:, None] * rows.masks, B)
        words = np.random.SeedSequence([base.seed, step, 9]).generate_state(1, np.uint64)
        generator = torch.Generator().manual_seed(int(words[0] >> np.uint64(1)))
        eligible = rows.weights > 0 if masking.whole_grid else rows.response_mask
        answer = rows.weights >= self.answer
        masks, weights = draw_masks(eligible, answer, size, masking, generator)
        return Draw(replace(rows, masks=masks), weights * rows.weights[:, None], size)

    def loss(self, score: Score, batch: Draw) -> tuple[Tensor, dict[str, float]]:
        """Weighted cross-entropy over every copy, the AR co-loss and the penalty where asked."""
        rows, policy = batch.rows, self.base.policy
        assert rows.masks is not None
        noisy = corrupt(rows.response, rows.masks, policy.mask_token_id)
        columns = build_columns(
            rows.prompt, rows.prompt_mask, rows.response, rows.response_mask, noisy,
            batch.block_size, self.base.context, dtype=policy.dtype,
        )  # fmt: skip
        N, C, L = rows.masks.shape
        at = columns.noisy_from.flatten().expand(N, -1)
        logits = score(columns.input_ids, columns.position_ids, columns.attention, columns=at)
        logits = logits.view(N, C, L, -1)
        used = batch.weights > 0
        targets = rows.response[:, None].expand(N, C, L)[used]
        loss = weighted_cross_entropy(logits[used], targets, batch.weights[used])
        count = float(used.sum())
        sums = {"tokens": count, "accuracy": float(hits(logits[used], targets).sum())}
        sums["accuracy_n"] = count
        if self.base.ar_weight:
            loss = loss + self.base.ar_weight * _co_loss(score, columns, rows)
        if self.masking.over_full:
            labels = self.labels.to(logits.device)
            placed = label_places(rows.response, rows.weights >= self.answer, labels)
            laws = logits.float().softmax(-1)[..., labels]
            penalty = over_full(laws, placed, rows.masks, batch.block_size)
            loss = loss + self.masking.over_full * penalty
            sums |= {"over_full": float(penalty.detach()), "over_full_n": float(N)}
        return loss, sums


def _co_loss(score: Score, columns: Columns, rows: Batch) -> Tensor:
    """The AR loss on the clean columns."""
    at = autoregressive_columns(columns).expand(len(rows.response), -1)
    logits = score(columns.input_ids, columns.position_ids, columns.attention, columns=at)
    used = rows.weights > 0
    return weighted_cross_entropy(logits[used], rows.response[used], rows.weights[used])


def regrid(rows: Batch, block_size: int, pad: int, end: int) -> Batch:
    """The same rows with blocks counted from the prompt's first token.

    The prompt's last tokens that do not fill a block lead the response, never masked (weight 0).
    """
    moved = []
    for n, key in enumerate(rows.keys):
        prompt = rows.prompt[n][rows.prompt_mask[n].bool()].tolist()
        real = rows.response_mask[n].bool()
        over = len(prompt) % block_size
        head = prompt[len(prompt) - over :]
        response = [*head, *rows.response[n][real].tolist()]
        weights = [*[0.0] * over, *rows.weights[n][real].tolist()]
        moved.append(Row(prompt[: len(prompt) - over], response, weights, key))
    return collate(moved, pad, end, block_size)
