"""Compute spent by a stage, in model columns: so stages are compared at equal cost."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

BACKWARD = 2  # a backward pass costs about two forward passes


class Columns:
    """A running total. spent: columns that went through any model's layers, in forward passes."""

    def __init__(self) -> None:
        self.spent = 0


@contextmanager
def counted() -> Iterator[Columns]:
    """Count the columns of every model's forward pass, those with a gradient three times.

    Rollouts, a teacher's passes and training passes are all seen, as each embeds its input once.
    """
    total = Columns()

    def see(module: nn.Module, given: tuple[Any, ...]) -> None:
        if isinstance(module, nn.Embedding) and given and isinstance(given[0], torch.Tensor):
            total.spent += given[0].numel() * (1 + BACKWARD * torch.is_grad_enabled())

    handle = nn.modules.module.register_module_forward_pre_hook(see)
    try:
        yield total
    finally:
        handle.remove()
