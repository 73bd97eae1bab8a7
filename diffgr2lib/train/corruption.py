"""Masking laws of conversion fine-tuning: a mask and its complement for every block.

"Diffusion-GR2" (arXiv 2607.01170), section 4, leaves the law open; this is t ~ U(0, 1) per block.
"""

import torch
from torch import Tensor


def complementary_masks(
    response_mask: Tensor, block_size: int, generator: torch.Generator, pair: bool = True
) -> Tensor:
    """Draw which response tokens to mask: bool [N, 2, L] (or [N, 1, L] with pair False).

    response_mask is bool [N, L], True on tokens that may be masked. Per row and block: t ~ U(0, 1),
    each eligible position is masked with probability t, and at least one is. The second copy is
    the complement within response_mask, so every token is supervised exactly once per pair and no
    1/t weight is needed. Where the first draw masks a whole block (always so in a block with a
    single eligible position) the complement has nothing masked there. Draws happen on the
    generator's device.
    """
    N, L = response_mask.shape
    blocks = -(-L // block_size)
    width = blocks * block_size
    eligible = torch.nn.functional.pad(response_mask.bool(), (0, width - L))
    eligible = eligible.view(N, blocks, block_size)
    device = generator.device
    t = torch.rand(N, blocks, 1, generator=generator, device=device).to(response_mask.device)
    u = torch.rand(N, blocks, block_size, generator=generator, device=device)
    u = u.to(response_mask.device)
    lowest = u.masked_fill(~eligible, 2.0).argmin(-1, keepdim=True)  # [N, blocks, 1]
    least_one = torch.zeros_like(eligible).scatter_(-1, lowest, True)
    first = ((u < t) | least_one) & eligible
    first = first.view(N, width)[:, :L]
    if not pair:
        return first[:, None]
    return torch.stack([first, response_mask.bool() & ~first], dim=1)


def corrupt(response: Tensor, mask: Tensor, mask_token_id: int) -> Tensor:
    """Response [N, L] with the positions of mask (bool [N, C, L]) replaced: long [N, C, L]."""
    return response[:, None].masked_fill(mask, mask_token_id)
