"""The penalty of answer-aware training: no label may be asked for more than once.

The K x K matrix of answer marginals (slot by label) of a permutation is doubly stochastic. On a
canvas only some slots of a block are masked, and what remains of it is: a label's probabilities
over the masked slots, plus 1 where it stands in sight, sum to at most 1.
"""

import torch
from torch import Tensor


def label_places(response: Tensor, answer: Tensor, labels: Tensor) -> Tensor:
    """Which label [K] stands where in the answer: float [N, L, K] from ids and answer [N, L]."""
    return ((response[:, :, None] == labels) & answer[:, :, None]).float()


def in_sight(placed: Tensor, masks: Tensor, block_size: int) -> Tensor:
    """How often each label stands where a copy's block sees it: float [N, C, blocks, K].

    placed: [N, L, K] (`label_places`), masks: bool [N, C, L]. Seen are all earlier blocks, and the
    unmasked positions of the block itself.
    """
    N, L, K = placed.shape
    by_block = placed.view(N, -1, block_size, K).sum(2)
    earlier = by_block.cumsum(1) - by_block
    shown = placed[:, None] * ~masks[:, :, :, None]
    own = shown.view(N, masks.shape[1], -1, block_size, K).sum(3)
    return earlier[:, None] + own


def over_full(laws: Tensor, placed: Tensor, masks: Tensor, block_size: int) -> Tensor:
    """Sum over copies, blocks and labels of max(0, column sum - 1) squared.

    laws: probability of each label at each position of each copy, [N, C, L, K]; only masked label
    slots of it are read.
    """
    N, C, L, K = laws.shape
    slots = (placed.sum(-1) > 0)[:, None] & masks  # [N, C, L]
    asked = (laws * slots[..., None]).view(N, C, -1, block_size, K).sum(3)
    columns = asked + in_sight(placed, masks, block_size)
    open_ = slots.view(N, C, -1, block_size).any(-1)[..., None]
    return (torch.relu(columns - 1) ** 2 * open_).sum()
