"""RL on a re-ranking reward: GRPO with DAPO's remedies, ratios by exact replay.

"Diffusion-GR2" (arXiv 2607.01170), sections 2 and 6. The same code trains the AR teacher (B = 1).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from diffgr2lib.config import DecodeConfig, Reinforcement, StageTrain
from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.model.policy import Policy
from diffgr2lib.onpolicy.replay import Score, commit_laws, replay
from diffgr2lib.onpolicy.reward import advantages
from diffgr2lib.onpolicy.rollout import roll_out
from diffgr2lib.train.objectives import walk


@dataclass(frozen=True, slots=True)
class Judged:
    """What the judge says of one response; copied: it repeats the retriever's order."""

    reward: float
    valid: bool
    copied: bool


Judge = Callable[[int, Sequence[int]], Judged]


@dataclass(frozen=True, slots=True)
class Experience:
    """Trajectories of kept groups, an advantage each, and a weight of 1 for every commit [N, L]."""

    trajectories: tuple[Trajectory, ...]
    advantages: Tensor  # [N]
    weights: Tensor
    keys: tuple[str, ...]
    report: dict[str, float]

    def part(self, rows: slice, device: torch.device) -> "Experience":
        """Some trajectories."""
        return replace(
            self,
            trajectories=self.trajectories[rows],
            advantages=self.advantages[rows].to(device),
            weights=self.weights[rows],
            keys=self.keys[rows],
        )


class Reinforce:
    """RL as an objective of the training loop.

    prompts: token ids of the training lists. judge(n, tokens) rewards a response to prompt n (its
    tokens up to and including the end token). reference: for the optional KL term.
    """

    def __init__(
        self,
        policy: Policy,
        prompts: Sequence[list[int]],
        keys: Sequence[str],
        judge: Judge,
        train: StageTrain,
        options: Reinforcement,
        decode: DecodeConfig,
        seed: int,
        reference: Policy | None = None,
    ) -> None:
        self.policy, self.prompts, self.names, self.judge = policy, prompts, keys, judge
        self.size, self.options, self.seed, self.reference = train.batch, options, seed, reference
        self.decode = replace(decode, temperature=options.temperature, tau=options.tau)
        self._made: tuple[int, Experience] | None = None

    def batch(self, step: int) -> Experience:
        """The experience of a step; `updates` steps in a row share one."""
        drawn = step // self.options.updates
        if self._made is None or self._made[0] != drawn or self.options.updates == 1:
            self._made = (drawn, self._experience(drawn))
        return self._made[1]

    def _experience(self, drawn: int) -> Experience:
        """Roll out until `size` groups have a variance in reward, `rounds` times at most."""
        options, G = self.options, self.options.group
        order = walk(self.seed, drawn, self.size * options.rounds, len(self.prompts))
        kept: list[tuple[Trajectory, float, str]] = []
        judged: list[Judged] = []
        groups = 0
        for n in range(options.rounds):
            chosen = order[n * self.size : (n + 1) * self.size]
            prompts, seed = [self.prompts[i] for i in chosen], [self.seed, drawn, n]
            made = roll_out(self.policy, prompts, G, self.decode, seed)
            seen = [
                self.judge(chosen[k // G], one.tokens[: one.length]) for k, one in enumerate(made)
            ]
            judged += seen
            gains = advantages(np.array([one.reward for one in seen]).reshape(-1, G))
            for g in np.flatnonzero(gains.any(axis=1))[: self.size - groups]:
                groups += 1
                names = [self.names[chosen[g]]] * G
                kept += zip(made[g * G : g * G + G], gains[g].tolist(), names, strict=True)
            if groups == self.size:
                break
        report = {
            "reward": float(np.mean([one.reward for one in judged])),
            "valid_rollouts": float(np.mean([one.valid for one in judged])),
            "copied": float(np.mean([one.copied for one in judged])),
            "dropped": 1 - groups * G / len(judged),
        }
        trajectories = tuple(one for one, _, _ in kept)
        width = max((len(one.tokens) for one in trajectories), default=0)
        commits = [
            [float(step >= 0) for step in one.reveal_step] + [0.0] * (width - len(one.tokens))
            for one in trajectories
        ]
        return Experience(
            trajectories,
            torch.tensor([gain for _, gain, _ in kept]),
            torch.tensor(commits).view(len(kept), width),
            tuple(name for _, _, name in kept),
            report,
        )

    def loss(self, score: Score, batch: Experience) -> tuple[Tensor, dict[str, float]]:
        """The clipped surrogate summed over commits; the loop divides by the step's commits."""
        options, made = self.options, batch.trajectories
        found, entropy = commit_laws(score, self.policy, made)  # [N, L]
        L = found.shape[1]
        old = torch.tensor(
            [[*one.log_probability, *[0.0] * (L - len(one.tokens))] for one in made],
            device=found.device,
        )
        counted = batch.weights[:, :L].to(found.device)
        ratio = (found - old).exp()
        gain = batch.advantages[:, None]
        clipped = ratio.clamp(1 - options.clip_low, 1 + options.clip_high)
        surrogate = torch.minimum(ratio * gain, clipped * gain)
        loss = -(surrogate * counted).sum()
        if options.kl and self.reference is not None:
            with torch.no_grad():
                anchor = replay(self.reference.forward, self.reference, made)
            apart = anchor - found
            loss = loss + options.kl * ((apart.exp() - apart - 1) * counted).sum()
        count = float(counted.sum())
        hit = (clipped * gain < ratio * gain) & (counted > 0)
        return loss, {
            "tokens": count,
            "entropy": float((entropy * counted).sum()),
            "entropy_n": count,
            "clipped": float(hit.sum()),
            "clipped_n": count,
        }
