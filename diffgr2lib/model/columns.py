"""Training columns ``[prompt | clean response | noisy copies]`` and which of them scores what.

The hidden state at t-1 scores token t (the shift). The first position of a block is scored from the
clean column before it, as in decoding; every other one from the noisy column before it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from diffgr2lib.errors import ModelError
from diffgr2lib.model.masks import Context, additive, check_context, visible


@dataclass(frozen=True, slots=True)
class Columns:
    """One forward pass worth of training input, S = P + L * (1 + C).

    input_ids, position_ids: long [N, S]. attention: additive float [N, 1, S, S].
    clean_from: long [L], the clean column before each response position (0: the last prompt
    column).
    noisy_from: long [C, L], the column that scores each position of each noisy copy.
    """

    input_ids: Tensor
    position_ids: Tensor
    attention: Tensor
    clean_from: Tensor
    noisy_from: Tensor
    block_size: int
    context: Context


def build_columns(
    prompt: Tensor,
    prompt_mask: Tensor,
    response: Tensor,
    response_mask: Tensor,
    noisy: Tensor | None,
    block_size: int,
    context: Context,
    dtype: torch.dtype = torch.float32,
) -> Columns:
    """Lay out prompt [N, P] (padded left), response [N, L] (padded right) and noisy [N, C, L].

    The masks are True on real tokens. All noisy copies of a row (a mask and its complement, or the
    canvases of C reveal steps) share the prompt and clean columns and never see one another. With
    noisy None (C = 0) the columns are the clean text; under causal context that is plain AR
    training.
    dtype is the model's, for the additive mask. Raises `ModelError` where a row has no prompt
    token.
    """
    check_context(context, block_size)
    N, L = response.shape
    P, device = prompt.shape[1], prompt.device
    if noisy is None:
        noisy = response.new_empty(N, 0, L)
    C = noisy.shape[1]
    prompt_mask, response_mask = prompt_mask.bool(), response_mask.bool()
    if P == 0 or not bool(prompt_mask[:, -1].all()):
        raise ModelError(
            "The last prompt column scores the first response token, so every row needs a real"
            " token there: pad prompts on the left and give each at least one token."
        )
    positions = response_positions(prompt_mask, L)  # [N, L]
    place = torch.arange(L, device=device)
    clean_from = P - 1 + place
    copy = torch.arange(C, device=device)[:, None]  # [C, 1]
    noisy_from = torch.where(place % block_size == 0, clean_from, clean_from + L * (1 + copy))
    return Columns(
        input_ids=torch.cat([prompt, response, noisy.reshape(N, C * L)], dim=1),
        position_ids=torch.cat([prompt_positions(prompt_mask), positions.repeat(1, 1 + C)], dim=1),
        attention=additive(visible(prompt_mask, response_mask, C, block_size, context), dtype),
        clean_from=clean_from,
        noisy_from=noisy_from,
        block_size=block_size,
        context=context,
    )


def prompt_positions(prompt_mask: Tensor) -> Tensor:
    """Position ids [N, P] of left-padded prompts: the first real token is 0, padding too."""
    return (prompt_mask.long().cumsum(1) - 1).clamp_min(0)


def response_positions(prompt_mask: Tensor, L: int) -> Tensor:
    """Position ids [N, L] of the response: they follow the row's own prompt length."""
    return prompt_mask.long().sum(1, keepdim=True) + torch.arange(L, device=prompt_mask.device)


def supervising_columns(columns: Columns, masks: Tensor) -> Tensor:
    """Long [N, L]: the column that scores each response position in the copy where it is masked.

    masks is bool [N, C, L], with each position masked in one copy at most (a mask and its
    complement); a position that no copy masks gets copy 0's column, to be given weight 0.
    """
    N, C, L = masks.shape
    copy = masks.long().argmax(1)  # [N, L]
    return columns.noisy_from.expand(N, C, L).gather(1, copy[:, None])[:, 0]


def autoregressive_columns(columns: Columns) -> Tensor:
    """Long [L]: the clean columns whose logits are the AR law of each response token.

    Raises `ModelError` where the clean columns are bidirectional inside a block: there the hidden
    state at t-1 has already seen token t, so an AR loss on it would reward copying.
    """
    if columns.context == "block" and columns.block_size > 1:
        raise ModelError(
            "An AR loss on the clean columns needs context='causal': with context='block' the"
            " column before a token has seen that token (clean blocks are bidirectional), so the"
            " loss leaks."
            " Set ar_weight to 0 or the context to 'causal'."
        )
    return columns.clean_from
