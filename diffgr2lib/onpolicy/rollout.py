"""Rollouts: trajectories drawn by the decoder that is served, seeded one by one."""

from collections.abc import Sequence

import numpy as np
import torch

from diffgr2lib import processes
from diffgr2lib.config import DecodeConfig
from diffgr2lib.decode.ar import decode_ar
from diffgr2lib.decode.block import decode_blocks
from diffgr2lib.decode.prepare import pad_left
from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.model.policy import Policy


def roll_out(
    policy: Policy,
    prompts: Sequence[Sequence[int]],
    samples: int,
    config: DecodeConfig,
    seed: Sequence[int],
    batch: int = 64,
) -> list[Trajectory]:
    """`samples` trajectories of each prompt, prompt by prompt.

    The randomness of a trajectory is a function of `seed`, its prompt's place and its sample number
    alone, not of the batch. A policy with block_size 1 goes through the AR loop. Of several
    processes each draws for its share of the prompts, and all return everything.
    """
    share = processes.mine(len(prompts))
    repeated = [prompts[n] for n in share for _ in range(samples)]
    start = share.start * samples
    made: list[Trajectory] = []
    for first in range(0, len(repeated), batch):
        chosen = repeated[first : first + batch]
        prompt, mask = pad_left(chosen, policy.pad_token_id)
        generators = [generator([*seed, start + first + n]) for n in range(len(chosen))]
        decode = decode_ar if policy.block_size == 1 else decode_blocks
        made += decode(policy, prompt, mask, config, generators, record=True).trajectories
    return processes.gathered(made)


def generator(seed: Sequence[int]) -> torch.Generator:
    """A generator of its own for each list of whole numbers."""
    words = np.random.SeedSequence(list(seed)).generate_state(2, np.uint64)
    return torch.Generator().manual_seed(int(words[0] >> np.uint64(1)))
