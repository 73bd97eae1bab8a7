"""`remask-once`: an invalid answer's blocks are masked and decoded a second time, token by token.

After reversible diffusion decoding (RDD). Valid answers are left alone, so it can only mend; its
cost is counted: a pass that stores the kept blocks again, then one token a pass.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from diffgr2lib.decode.block import Run, fused, unfused
from diffgr2lib.decode.constrain import CandidateTable
from diffgr2lib.decode.prepare import Generators, evaluating
from diffgr2lib.decode.trajectory import Decoded, Trajectory
from diffgr2lib.model.policy import Policy

if TYPE_CHECKING:
    from diffgr2lib.config import DecodeConfig


@torch.inference_mode()
def decode_again(
    policy: Policy,
    prompt: Tensor,
    prompt_mask: Tensor,
    config: "DecodeConfig",
    decoded: Decoded,
    blocks: Sequence[int | None],
    generators: Generators | None = None,
    table: CandidateTable | None = None,
) -> Decoded:
    """Keep each row's blocks before number blocks[n] and decode the rest anew; None: leave the row.

    decoded: what `decode_blocks` gave for these prompts [N, P]. The second time the commit rule is
    one token a step. Passes add to the row's nfe.
    """
    tokens, nfe, kept = list(decoded.tokens), list(decoded.nfe), list(decoded.trajectories)
    careful, B = replace(config, tau=2.0, rule="threshold", remask_once=False), policy.block_size
    with evaluating(policy):
        for block in sorted({block for block in blocks if block is not None}):
            rows = [n for n, wanted in enumerate(blocks) if wanted == block]
            at = torch.tensor(rows)
            run = Run(
                policy,
                prompt[at],
                prompt_mask[at],
                careful,
                None if generators is None else [generators[n] for n in rows],
                bool(kept),
                None if table is None else table.rows(at.to(table.labels.device)),
                clean=torch.tensor([tokens[n][: block * B] for n in rows]).long(),
            )
            (fused if config.fused else unfused)(run)
            made = run.result()
            for place, n in enumerate(rows):
                tokens[n], nfe[n] = made.tokens[place], nfe[n] + made.nfe[place]
                if kept:
                    kept[n] = _joined(kept[n], made.trajectories[place], block * B, nfe[n])
    return Decoded(tokens, kept, nfe)


def _joined(old: Trajectory, new: Trajectory, place: int, nfe: int) -> Trajectory:
    """The new trajectory, with what the old one records of the positions before `place`."""
    parts = {
        name: getattr(old, name)[:place] + getattr(new, name)[place:]
        for name in ("reveal_step", "confidence", "log_probability")
    }
    return replace(new, nfe=nfe, **parts)
