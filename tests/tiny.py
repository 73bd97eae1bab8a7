"""A random model, prompts and responses so small that only arithmetic is under test."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from diffgr2lib.config import DecodeConfig
from diffgr2lib.model.masks import Context
from diffgr2lib.model.policy import Policy, build_model

VOCABULARY, MASK, END, PAD = 40, 39, 1, 0
NEVER = 999  # an end token that no model emits, for outputs of a forced length

MakePolicy = Callable[..., Policy]


def settings(**changes: Any) -> DecodeConfig:
    """Decoding options at their defaults, 24 tokens at most, with some changes."""
    return DecodeConfig(**{"max_new_tokens": 24, **changes})


def make_tiny(
    block_size: int = 4,
    context: Context = "causal",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    end: int = END,
    vocabulary: int = VOCABULARY,
) -> Policy:
    """A Qwen3 policy of 2 layers, hidden 32, with weights large enough for sharp logits.

    Its output head is untied: a tied random model would only repeat its last token.
    """
    model = build_model(vocabulary, 32, 2, 4, 64, 128, seed)
    model.config.tie_word_embeddings = False
    model.lm_head.weight = torch.nn.Parameter(torch.empty(vocabulary, 32))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.mul_(5.0)
        model.lm_head.weight.normal_(0, 0.4, generator=torch.Generator().manual_seed(seed))
    return Policy(model.to(dtype), None, block_size, context, vocabulary - 1, end, PAD)


def ragged_prompts(rows: int = 3, width: int = 7, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random prompts [rows, width], row n padded on the left by n % 4 columns; and their mask."""
    generator = torch.Generator().manual_seed(seed)
    prompt = torch.randint(2, MASK, (rows, width), generator=generator)
    real = torch.arange(width) >= torch.arange(rows)[:, None] % 4
    return prompt.where(real, PAD), real


def ragged_responses(rows: int = 3, width: int = 8, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Random responses [rows, width], row n padded on the right by n columns; and their mask."""
    generator = torch.Generator().manual_seed(seed)
    response = torch.randint(2, MASK, (rows, width), generator=generator)
    real = torch.arange(width) < width - torch.arange(rows)[:, None] % width
    return response.where(real, PAD), real


def seeded(rows: int, first: int = 0) -> list[torch.Generator]:
    """One generator per row."""
    return [torch.Generator().manual_seed(first + n) for n in range(rows)]


def checkpoint_layers(policy: Policy) -> None:
    """Recompute activations in the backward pass (renamed in transformers 5.24)."""
    model = policy.model
    enable = getattr(model, "activation_checkpointing_enable", None)
    (enable or model.gradient_checkpointing_enable)({"use_reentrant": False})
