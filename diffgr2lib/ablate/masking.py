"""Ways to mask a response in conversion fine-tuning, beside the kit's own (`train.corruption`).

The paper leaves the law open. Laws: `uniform`, t ~ U(0, 1) per block; `clipped`, t ~ U(0.3, 0.8)
(after BD3-LM, arXiv 2503.09573); `later`, position i of B masked with t^(2 - 2 (i + 1/2) / B), as
decoding leaves later positions masked for longer.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from diffgr2lib.errors import ConfigError

Law = Literal["uniform", "clipped", "later"]
LAWS = ("uniform", "clipped", "later")
CLIPPED = (0.3, 0.8)


@dataclass(frozen=True, slots=True)
class Masking:
    """One way to mask; the defaults are the kit's.

    pair: a mask and its complement; False: two masks drawn apart, each token weighed by 1 / its
    probability of being masked. whole_answer: share of rows whose answer is masked whole.
    over_full: weight of a penalty where answer marginals ask for a label more than once (see
    `balance`). grow: block size 1, 2, 4, .., B over the stage. whole_grid: blocks counted from the
    prompt's first token instead of the response's.
    """

    pair: bool = True
    law: Law = "uniform"
    whole_answer: float = 0.0
    over_full: float = 0.0
    grow: bool = False
    whole_grid: bool = False

    def __post_init__(self) -> None:
        """Refuse unknown laws and shares out of range."""
        if self.law not in LAWS:
            raise ConfigError(f"Masking.law is {self.law!r}; choose one of {', '.join(LAWS)}.")
        if not (0 <= self.whole_answer <= 1 and self.over_full >= 0):
            raise ConfigError("Masking: whole_answer lies in [0, 1], over_full is at least 0.")


def probabilities(law: Law, t: Tensor, block_size: int) -> Tensor:
    """Probability of being masked: t, float [N, blocks, 1], to float [N, blocks, B]."""
    if law == "clipped":
        low, high = CLIPPED
        t = low + (high - low) * t
    exponent = torch.ones(block_size, device=t.device)
    if law == "later":
        exponent = 2 - 2 * (torch.arange(block_size, device=t.device) + 0.5) / block_size
    return t**exponent


def draw_masks(
    eligible: Tensor,
    answer: Tensor,
    block_size: int,
    masking: Masking,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Masks bool [N, 2, L] and the weight of each masked token, float [N, 2, L], 0 elsewhere.

    eligible, answer: bool [N, L], tokens that may be masked, and those of the answer. L is a
    multiple of the block size. A pair masks each eligible token once, at weight 1. Masks drawn
    apart weigh a token 1 / (2 p), p held above 1 / B, so that it counts 1 in expectation (a little
    less where p was held).
    """
    N, L = eligible.shape
    blocks = L // block_size
    shape = (N, blocks, block_size)
    inside = eligible.view(shape)
    copies = 1 if masking.pair else 2
    masks, weights = [], []
    for _ in range(copies):
        t = torch.rand(N, blocks, 1, generator=generator)
        p = probabilities(masking.law, t, block_size)
        u = torch.rand(shape, generator=generator)
        if masking.pair:  # at least one masked token a block, as `complementary_masks`
            lowest = u.masked_fill(~inside, 2.0).argmin(-1, keepdim=True)
            p = p.scatter(-1, lowest, 2.0)
        else:
            p = p.clamp_min(1 / block_size)
        masks.append(((u < p) & inside).view(N, L))
        weights.append((1 / (2 * p)).expand(shape).reshape(N, L))
    if masking.pair:
        whole = torch.zeros(N, 1, dtype=torch.bool)
        if masking.whole_answer:
            whole = torch.rand(N, 1, generator=generator) < masking.whole_answer
        first = masks[0] | (whole & answer & eligible)
        both = torch.stack([first, eligible & ~first], dim=1)
        return both, both.float()
    both = torch.stack(masks, dim=1)
    return both, torch.stack(weights, dim=1) * both


def grown(block_size: int, step: int, steps: int) -> int:
    """Block size of a step that grows 1, 2, 4, .., block_size in equal parts of the stage."""
    sizes = [size for n in range(16) if (size := 2**n) < block_size] + [block_size]
    return sizes[min(len(sizes) - 1, step * len(sizes) // steps)]
