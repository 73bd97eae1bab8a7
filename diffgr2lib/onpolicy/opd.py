"""On-policy distillation: the AR teacher's law on the canvases that the student really decoded.

"Diffusion-GR2" (arXiv 2607.01170), section 5. The paper leaves open which canvases and which
positions are taught. They matter: the teacher reads left to right, so where later tokens of a block
are already committed its law ignores them and may ask for an id that stands further right. Targets
named `frontier` leave such positions out, `corrected` ones mend the law there (see `hindsight`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from diffgr2lib.config import DecodeConfig, Distillation, StageTrain
from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.model.policy import Policy
from diffgr2lib.onpolicy.divergence import divergence
from diffgr2lib.onpolicy.hindsight import corrected_logits, teacher_logits
from diffgr2lib.onpolicy.replay import Score, States, every_step, last_steps, lay_out, states
from diffgr2lib.onpolicy.rollout import roll_out
from diffgr2lib.train.objectives import Supervised, walk
from diffgr2lib.train.rows import Batch

TokenWeights = Callable[[Sequence[int]], list[float]]


@dataclass(frozen=True, slots=True)
class Lessons:
    """Trajectories, the canvases taught from, and a weight for each position of each canvas."""

    trajectories: tuple[Trajectory, ...]
    shown: States
    taught: Tensor  # [N, C, L]
    keys: tuple[str, ...]
    report: dict[str, float]
    mixed: Batch | None = None
    mixed_weight: float = 0.0

    @property
    def weights(self) -> Tensor:
        """All weights of the step, those of mixed-in CFT rows included."""
        if self.mixed is None:
            return self.taught
        return torch.cat([self.taught.flatten(), self.mixed_weight * self.mixed.weights.flatten()])

    def part(self, rows: slice, device: torch.device) -> "Lessons":
        """Some trajectories, and the CFT rows of the same numbers."""
        shown = self.shown
        chosen = replace(
            self,
            trajectories=self.trajectories[rows],
            shown=States(
                shown.tokens[rows], shown.reveal_step[rows], shown.real[rows], shown.step[rows]
            ),
            taught=self.taught[rows],
            keys=self.keys[rows],
        )
        if self.mixed is None or not self.mixed.keys[rows]:
            return replace(chosen, mixed=None)
        return replace(chosen, mixed=self.mixed.part(rows, device))


class Distil:
    """OPD as an objective of the training loop.

    prompts: token ids of the training lists, visited in seeded permutations. token_weights: weight
    of each token of a response (trace, answer). cft: rows to mix in, or None.
    """

    def __init__(
        self,
        policy: Policy,
        teacher: Policy,
        prompts: Sequence[list[int]],
        keys: Sequence[str],
        token_weights: TokenWeights,
        train: StageTrain,
        options: Distillation,
        decode: DecodeConfig,
        seed: int,
        cft: Supervised | None = None,
    ) -> None:
        self.policy, self.teacher, self.prompts, self.names = policy, teacher, prompts, keys
        self.token_weights, self.size, self.options = token_weights, train.batch, options
        self.seed, self.cft = seed, cft
        self.decode = replace(decode, temperature=options.temperature, tau=options.tau)

    def batch(self, step: int) -> Lessons:
        """Roll out the current student on the step's prompts and choose what is taught."""
        chosen = walk(self.seed, step, self.size, len(self.prompts))
        return self.lessons(step, chosen, self.roll(step, chosen))

    def roll(self, step: int, chosen: Sequence[int]) -> list[Trajectory]:
        """`samples` trajectories of each chosen prompt, prompt by prompt."""
        prompts, samples = [self.prompts[n] for n in chosen], self.options.samples
        return roll_out(self.policy, prompts, samples, self.decode, [self.seed, step])

    def lessons(self, step: int, chosen: Sequence[int], made: Sequence[Trajectory]) -> Lessons:
        """What the step's trajectories teach."""
        samples = self.options.samples
        rng = np.random.default_rng([self.seed, step, 2])
        steps = every_step(made) if self.options.states == "all" else one_step(made, rng)
        shown = states(made, steps, self.policy.pad_token_id)
        taught = chosen_targets(shown, self.policy.block_size, self.options)
        taught = taught * self._weights(made, shown.tokens.shape[1])[:, None]
        passes = sum(one.nfe for one in made)
        return Lessons(
            tuple(made),
            shown,
            taught,
            tuple(self.names[n] for n in chosen for _ in range(samples)),
            {"rollout_tpf": sum(one.length for one in made) / passes},
            None if self.cft is None else self.cft.batch(step),
            self.options.cft_weight,
        )

    def _weights(self, made: Sequence[Trajectory], width: int) -> Tensor:
        """Trace and answer weights [N, L], 0 past the end token."""
        rows = [self.token_weights(one.tokens[: one.length]) for one in made]
        return torch.tensor([[*row, *[0.0] * (width - len(row))] for row in rows])

    def loss(self, score: Score, batch: Lessons) -> tuple[Tensor, dict[str, float]]:
        """Weighted divergence over the taught positions, and its split by what they can see."""
        policy, device = self.policy, self.policy.device
        chosen = (batch.taught > 0).to(device)
        canvases = lay_out(policy, batch.trajectories, batch.shown)
        student = canvases.logits(score, chosen, policy.mask_token_id)
        asked = (batch.taught > 0).nonzero()  # row, canvas, place
        laws = teacher_logits(self.teacher, batch.trajectories, batch.shown)
        if self.options.targets == "corrected":
            teacher = corrected_logits(
                self.teacher, batch.trajectories, batch.shown, asked, laws, policy.block_size
            )
        else:
            teacher = laws[asked[:, 0], asked[:, 2]]
        kl = divergence(self.options.divergence, teacher, student, self.options.top_k)
        loss = (kl * batch.taught.to(device)[chosen]).sum()
        agree = student.argmax(-1) == teacher.argmax(-1)
        sums = {"tokens": float(len(kl))}
        groups = {"accuracy": torch.ones_like(agree)} | {
            f"kl_{name}": where.to(device)[chosen]
            for name, where in sight(batch.shown, policy.block_size).items()
        }
        for name, where in groups.items():
            values = agree if name == "accuracy" else kl.detach()
            sums |= {name: float(values[where].sum()), f"{name}_n": float(where.sum())}
        if batch.mixed is not None and self.cft is not None:
            mixed, _ = self.cft.loss(score, batch.mixed)
            loss = loss + self.options.cft_weight * mixed
        return loss, sums


def one_step(made: Sequence[Trajectory], rng: np.random.Generator) -> Tensor:
    """One step of every block, drawn evenly among those it took: long [N, 1, blocks]."""
    last = last_steps(made)
    width = max(map(len, last))
    drawn = [
        [int(rng.integers(end + 1)) for end in row] + [-1] * (width - len(row)) for row in last
    ]
    return torch.tensor(drawn)[:, None]


def right_visible(shown: States, block_size: int) -> Tensor:
    """Bool [N, C, L]: positions with a committed token to their right in their block."""
    N, C, L = shown.step.shape
    open_ = shown.masked.view(N, C, -1, block_size)
    known = (~open_).long()
    later = known.flip(-1).cumsum(-1).flip(-1) - known
    return (later > 0).view(N, C, L)


def chosen_targets(shown: States, block_size: int, options: Distillation) -> Tensor:
    """Weight [N, C, L] of every position as a target, before trace and answer weights.

    `masked`: every masked position. `committed`: those committed in the step. `frontier`: masked
    ones with nothing visible to their right in their block, where the teacher misses nothing.
    `corrected`: every masked position, the teacher's law there given the right too (`hindsight`).
    blind_weight in [0, 1] is what a masked position counts where something is (masked: 1).
    """
    open_ = shown.masked
    if options.targets == "corrected":
        return open_.float()
    if options.targets == "committed":
        return shown.committed.float()
    blind = open_ & right_visible(shown, block_size)
    weight = 0.0 if options.targets == "frontier" else options.blind_weight
    return open_.float().masked_fill(blind, weight)


def sight(shown: States, block_size: int) -> dict[str, Tensor]:
    """Masked positions by what precedes them in their block, each bool [N, C, L].

    `start`: block starts. `visible`: every predecessor in the block is committed. `hidden`: some is
    masked; the divergence there has a floor above 0, as the teacher sees tokens that the canvas
    masks.
    """
    N, C, L = shown.step.shape
    open_ = shown.masked.view(N, C, -1, block_size)
    before = open_.long().cumsum(-1) - open_.long()
    start = torch.zeros_like(open_)
    start[..., 0] = True
    clear = (before == 0) & ~start
    parts = {"start": start, "visible": clear, "hidden": before > 0}
    return {name: (open_ & where).view(N, C, L) for name, where in parts.items()}
