"""A start that lets a small model learn look-ups: first-layer heads that attend a few tokens back.

Copying an item by its label is an induction circuit (Olsson et al., "In-context learning and
induction heads", 2022): one layer marks each token with the label before it, the next finds the
mark. Its slow part is a head that looks a fixed distance back: without a query and key bias RoPE
gives no position-only score at all. We only *start* heads there; training may move them.
"""

from typing import Any

import torch
from transformers import Qwen3ForCausalLM

SHARPNESS = 1.5  # gain of the query and key norms of the first layer
AMPLITUDE = 2.0  # of the biases; large beside the content part of a fresh query (about 0.2)
FREQUENCIES = 6  # fastest rotary frequencies used: they tell neighbours apart


@torch.no_grad()
def look_back(model: Qwen3ForCausalLM, heads: int) -> None:
    """Start head j of the first layer, j < heads, at the token j + 1 places before (in place).

    A query bias equal to the key bias turned back by j + 1 rotary steps makes the score a function
    of distance alone, largest at j + 1. Needs a config with attention_bias and the default rotary
    embedding (halves rotated).
    """
    config = model.config
    attention = model.model.layers[0].self_attn
    width = config.head_dim
    used = min(FREQUENCIES, width // 2)
    rope: Any = config.rope_parameters
    theta = float(rope["rope_theta"])
    step = theta ** (-torch.arange(used) / (width / 2))  # [used] radians a position
    attention.q_norm.weight.fill_(SHARPNESS)
    attention.k_norm.weight.fill_(SHARPNESS)
    for head in range(heads):
        low = head * width
        high = low + width // 2
        attention.k_proj.bias[low : low + used] = AMPLITUDE
        attention.q_proj.bias[low : low + used] = AMPLITUDE * torch.cos(step * (head + 1))
        attention.q_proj.bias[high : high + used] = -AMPLITUDE * torch.sin(step * (head + 1))
