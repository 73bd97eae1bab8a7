"""Who attends to whom: the block-diffusion mask over ``[prompt | clean | noisy copies]``.

A sequence has P prompt columns, L clean response columns and C noisy copies of those L columns.
Everything below is derived from one rule, written twice: `visible_loop` for reading, `visible` for
use.
"""

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from diffgr2lib.errors import ModelError

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

Context = Literal["block", "causal"]
CONTEXTS: tuple[Context, ...] = ("block", "causal")


def check_context(context: str, block_size: int) -> None:
    """Raise `ModelError` unless the context is a known name and the block size is at least 1."""
    if context not in CONTEXTS:
        raise ModelError(f"context is {context!r}; choose one of {', '.join(CONTEXTS)}.")
    if block_size < 1:
        raise ModelError(f"block_size is {block_size}; it counts positions and must be 1 or more.")


def visible_loop(
    prompt_mask: Tensor, response_mask: Tensor, copies: int, block_size: int, context: Context
) -> Tensor:
    """Reference for one row: bool [S, S], query by key, S = P + L * (1 + copies).

    prompt_mask is bool [P] and response_mask bool [L], True on real tokens.
    """
    P, L = len(prompt_mask), len(response_mask)
    real = torch.cat([prompt_mask, response_mask.repeat(1 + copies)])
    columns = [(-1, i) for i in range(P)] + [(c, i) for c in range(1 + copies) for i in range(L)]
    seen = torch.zeros(len(columns), len(columns), dtype=torch.bool)
    for q, (qc, qi) in enumerate(columns):  # qc: -1 prompt, 0 clean, 1.. a noisy copy
        for k, (kc, ki) in enumerate(columns):
            in_order = ki <= qi or (
                context == "block" and qc == 0 and ki // block_size == qi // block_size
            )
            inside = in_order if qc < 1 else ki // block_size == qi // block_size
            before = kc < 0 <= qc or (kc == 0 < qc and ki // block_size < qi // block_size)
            seen[q, k] = q == k or (bool(real[k]) and (inside if qc == kc else before))
    return seen


def _segments(P: int, L: int, copies: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Copy number (-1 prompt, 0 clean, 1.. noisy) and place within its segment, both [S]."""
    kind = torch.arange(-1, 1 + copies, device=device)
    sizes = torch.tensor([P] + [L] * (1 + copies), device=device)
    place = torch.arange(L, device=device).repeat(1 + copies)
    return kind.repeat_interleave(sizes), torch.cat([torch.arange(P, device=device), place])


def structure(
    P: int, L: int, copies: int, block_size: int, context: Context, device: torch.device
) -> Tensor:
    """The part of the mask that all rows share: bool [S, S], padding not yet hidden."""
    kind, place = _segments(P, L, copies, device)
    block = torch.where(kind < 0, -1, place // block_size)
    qk, kk = kind[:, None], kind[None, :]
    same_block = block[:, None] == block[None, :]
    in_order = place[:, None] >= place[None, :]
    if context == "block":
        in_order = in_order | (same_block & (qk == 0))
    inside = torch.where(qk < 1, in_order, same_block)
    before = (kk < 0) | ((kk == 0) & (qk > 0) & (block[:, None] > block[None, :]))
    return torch.where(qk == kk, inside, before & (qk > kk))


def visible(
    prompt_mask: Tensor, response_mask: Tensor, copies: int, block_size: int, context: Context
) -> Tensor:
    """Vectorised `visible_loop` for a batch: bool [N, S, S] from bool [N, P] and [N, L].

    Padding is hidden from every other column; each column sees itself, so that no softmax is empty.
    Sources: block attention, "Diffusion-GR2" (arXiv 2607.01170), section 3; context-causal, NBDiff.
    """
    check_context(context, block_size)
    P, L = prompt_mask.shape[1], response_mask.shape[1]
    shared = structure(P, L, copies, block_size, context, prompt_mask.device)
    real = torch.cat([prompt_mask, response_mask.repeat(1, 1 + copies)], dim=1).bool()  # [N, S]
    itself = torch.eye(real.shape[1], dtype=torch.bool, device=real.device)
    return (shared & real[:, None, :]) | itself


def additive(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """Bool [N, Q, K] to the float [N, 1, Q, K] that sdpa adds to its scores: 0 or -infinity."""
    blank = torch.zeros((), dtype=dtype, device=seen.device)
    return torch.where(seen, blank, float("-inf")).unsqueeze(1)


def flex_mask(
    prompt_mask: Tensor, response_mask: Tensor, copies: int, block_size: int, context: Context
) -> "BlockMask":
    """`visible` as a block mask for ``attn_implementation="flex_attention"`` (GPU only).

    Pass it to `Policy.forward` in place of the additive mask; the results equal sdpa's.
    """
    from torch.nn.attention.flex_attention import create_block_mask

    check_context(context, block_size)
    N, P = prompt_mask.shape
    kind, place = _segments(P, response_mask.shape[1], copies, prompt_mask.device)
    block = torch.where(kind < 0, -1, place // block_size)
    real = torch.cat([prompt_mask, response_mask.repeat(1, 1 + copies)], dim=1).bool()
    block_context = context == "block"

    def seen(n: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        same_block = block[q] == block[k]
        in_order = place[q] >= place[k]
        if block_context:
            in_order = in_order | (same_block & (kind[q] == 0))
        inside = torch.where(kind[q] < 1, in_order, same_block)
        clean = (kind[k] == 0) & (kind[q] > 0) & (block[q] > block[k])
        before = ((kind[k] < 0) | clean) & (kind[q] > kind[k])
        return (torch.where(kind[q] == kind[k], inside, before) & real[n, k]) | (q == k)

    S = real.shape[1]
    return create_block_mask(seen, N, None, S, S, device=str(prompt_mask.device))
