"""What both decoding loops do before their first token: check, draw the randomness, prefill."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from diffgr2lib.errors import ModelError
from diffgr2lib.model.cache import BlockCache
from diffgr2lib.model.columns import prompt_positions
from diffgr2lib.model.masks import additive, visible
from diffgr2lib.model.policy import Policy

Generators = Sequence[torch.Generator]


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


def prefill(policy: Policy, prompt: Tensor, prompt_mask: Tensor, cache: BlockCache) -> Tensor:
    """Store prompts [N, P] in one causal pass; logits [N, V] of the first response token."""
    P = prompt.shape[1]
    check_prompt(prompt_mask)
    seen = visible(prompt_mask, prompt_mask[:, :0], 0, 1, "causal")
    attention, positions = additive(seen, policy.dtype), prompt_positions(prompt_mask)
    logits = policy.forward(prompt, positions, attention, cache, slice(P - 1, P))[:, 0]
    cache.advance(P)
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
