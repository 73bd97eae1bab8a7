"""Losses as sums over weighted tokens; the caller divides by the weight of the whole step."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


def weighted_cross_entropy(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Sum over tokens of weight times -log p(target): logits [M, V], targets and weights [M].

    A token of weight 0 adds exactly 0, whatever its logits (-inf included).
    """
    used = weights > 0
    if not bool(used.any()):
        return logits.new_zeros(())
    losses = cross_entropy(logits[used].float(), targets[used], reduction="none")
    return (losses * weights[used]).sum()


@torch.no_grad()
def hits(logits: Tensor, targets: Tensor) -> Tensor:
    """Bool [M]: whether the arg-max of logits [M, V] is the target [M]."""
    return logits.argmax(-1) == targets
