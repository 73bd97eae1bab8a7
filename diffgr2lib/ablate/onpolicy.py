"""What on-policy learning is held against: OPD on the teacher's texts, RL with another reward."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.onpolicy.opd import Distil
from diffgr2lib.onpolicy.rl import Judge, Judged
from diffgr2lib.train.rows import Row


class OffPolicy(Distil):
    """OPD's loss on the training traces, revealed in random order: no rollout, no student state.

    rows: the traces. per_step: how many tokens of a block each step reveals, about what the
    student commits.
    """

    def __init__(self, *of_distil: Any, rows: Sequence[Row], per_step: int = 4) -> None:
        super().__init__(*of_distil)
        self.rows, self.per_step = rows, per_step

    def roll(self, step: int, chosen: Sequence[int]) -> list[Trajectory]:
        """As many trajectories as OPD takes, drawn from the traces."""
        rng = np.random.default_rng([self.seed, step, 3])
        picked = rng.integers(len(self.rows), size=len(chosen) * self.options.samples)
        B, end = self.policy.block_size, self.policy.eos_token_id
        return [as_trajectory(self.rows[n], B, end, self.per_step, rng) for n in picked]


def as_trajectory(
    row: Row, block_size: int, end: int, per_step: int, rng: np.random.Generator
) -> Trajectory:
    """A text as if each block had been decoded `per_step` tokens a step, in random order."""
    length = len(row.response)
    tokens = [*row.response, *[end] * (-length % block_size)]
    reveal: list[int] = []
    for _ in range(0, len(tokens), block_size):
        reveal += (rng.permutation(block_size) // per_step).tolist()
    blank = (0.0,) * len(tokens)
    steps = sum(-(-block_size // per_step) for _ in range(0, len(tokens), block_size))
    return Trajectory(
        tuple(row.prompt), tuple(tokens), tuple(reveal), blank, blank, block_size, 0.0, length,
        steps + 1,
    )  # fmt: skip


def unconditional(plain: Judge, alpha: float) -> Judge:
    """`plain` (which adds no alpha) with alpha for every valid answer, earned or not."""

    def judge(n: int, tokens: Sequence[int]) -> Judged:
        found = plain(n, tokens)
        return replace(found, reward=found.reward + alpha) if found.valid else found

    return judge
