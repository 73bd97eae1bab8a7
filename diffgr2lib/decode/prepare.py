"""What both decoding loops do before their first token: check, draw the randomness, prefill."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from diffgr2lib.errors import ModelError
from diffgr2lib.model.cache import BlockCache
from diffgr2lib.model.columns import prompt_positions, response_positions
from diffgr2lib.model.masks import additive, visible
from diffgr2lib.model.policy import Policy

Generators = Sequence[torch.Generator]


def pad_left(prompts: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Prompts as one long [N, P] padded on the left, and bool [N, P], True on real tokens."""
    P = max(map(len, prompts))
    ids = torch.full((len(prompts), P), pad)
    mask = torch.zeros(len(prompts), P, dtype=torch.bool)
    for n, prompt in enumerate(prompts):
        ids[n, P - len(prompt) :] = torch.tensor(prompt)
        mask[n, P - len(prompt) :] = True
    return ids, mask


def check_room(policy: Policy, prompt: int, response: int) -> None:
    """Raise `ModelError` where prompt and response exceed the model's positions."""
    room = getattr(policy.model.config, "max_position_embeddings", None)
    if room is not None and prompt + response > room:
        raise ModelError(
            f"A prompt of {prompt} and a response of {response} tokens exceed the model's {room}"
            " positions: shorten the prompt, lower max_new_tokens or take a larger model."
        )


def check_prompt(prompt_mask: Tensor) -> None:
    """Raise `ModelError` where a row of prompt_mask [N, P] does not end in a real token."""
    if prompt_mask.shape[1] == 0 or not bool(prompt_mask[:, -1].all()):
        raise ModelError("Pad prompts on the left, and give each row at least one real token.")


def draw(
    generators: Generators | None, N: int, W: int, temperature: float, device: torch.device
) -> Tensor | None:
    """One uniform per row and response position, from the row's own generator: double [N, W]."""
    if temperature == 0:
        return None
    if generators is None or len(generators) != N:
        raise ModelError(
            f"temperature is {temperature}, so give one generator for each of {N} rows."
        )
    draws = [torch.rand(W, generator=g, dtype=torch.float64, device=g.device) for g in generators]
    return torch.stack([row.to(device) for row in draws])


def prefill(
    policy: Policy,
    prompt: Tensor,
    prompt_mask: Tensor,
    cache: BlockCache,
    clean: Tensor | None = None,
) -> Tensor:
    """Store prompts [N, P] in one pass; logits [N, V] of the first response token.

    clean [N, S]: whole blocks of a response to store as well; the logits are then of the token
    after them.
    """
    check_prompt(prompt_mask)
    clean = prompt[:, :0] if clean is None else clean
    width = prompt.shape[1] + clean.shape[1]
    real = torch.ones_like(clean, dtype=torch.bool)
    seen = visible(prompt_mask, real, 0, policy.block_size, policy.context)
    places = [prompt_positions(prompt_mask), response_positions(prompt_mask, clean.shape[1])]
    ids, positions = torch.cat([prompt, clean], dim=1), torch.cat(places, dim=1)
    attention = additive(seen, policy.dtype)
    logits = policy.forward(ids, positions, attention, cache, slice(width - 1, width))[:, 0]
    cache.advance(width)
    return logits


@contextmanager
def evaluating(policy: Policy) -> Iterator[None]:
    """Evaluation mode for the duration (checkpointed layers ignore the cache while training)."""
    training = policy.model.training
    policy.model.eval()
    try:
        yield
    finally:
        policy.model.train(training)
