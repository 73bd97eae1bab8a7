"""What RL would get wrong with a cheap likelihood: one masked forward instead of a replay.

The mean-field likelihood scores every token of a block on the fully masked canvas, as if they had
all been committed at once. On a model small enough to enumerate, both laws are known exactly.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from diffgr2lib.config import Fallback, StageTrain
from diffgr2lib.decode.commit import choose, propose
from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.model.columns import build_columns
from diffgr2lib.model.policy import Policy, build_model
from diffgr2lib.onpolicy.replay import replay
from diffgr2lib.train.loop import make_optimizers
from diffgr2lib.train.objectives import Supervised
from diffgr2lib.train.rows import Row

ITEMS, END, PAD, MASK = (2, 3, 4), 1, 0, 5  # the enumerable world: three items, their orders
Law = dict[tuple[int, ...], float]


def mean_field(policy: Policy, trajectories: Sequence[Trajectory]) -> Tensor:
    """Log-probability [N, L] of every commit on the canvas on which its whole block is masked."""
    at_once = [
        replace(one, reveal_step=tuple(min(step, 0) for step in one.reveal_step))
        for one in trajectories
    ]
    return replay(policy.forward, policy, at_once)


def enumerable_policy(seed: int = 0, steps: int = 200) -> Policy:
    """A tiny model trained to write the three items of its prompt in any order, B = 3."""
    rng = np.random.default_rng([seed, 5])
    orders = [list(order) for order in itertools.permutations(ITEMS)]
    rows = [
        Row(orders[rng.integers(6)], orders[rng.integers(6)], [1.0] * 3, str(n)) for n in range(512)
    ]
    policy = Policy(build_model(6, 32, 2, 2, 64, 16, seed), None, 3, "block", MASK, END, PAD)
    objective = Supervised(policy, rows, 32, seed, diffusion=True)
    optimizers = make_optimizers(policy, StageTrain(steps=steps, lr=0.01, lr_embed=0.005))
    policy.model.train()
    for step in range(steps):
        batch = objective.batch(step)
        loss, _ = objective.loss(policy.forward, batch)
        (loss / float(batch.weights.sum())).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    policy.model.eval()
    return policy


@torch.no_grad()
def canvas_law(policy: Policy, prompt: Sequence[int], canvas: Sequence[int]) -> Tensor:
    """Logits [1, B, V] of a first block as it stands, the mask token excluded."""
    ids, shown = torch.tensor([list(prompt)]), torch.tensor([list(canvas)])
    real = torch.ones_like(shown, dtype=torch.bool)
    columns = build_columns(
        ids, torch.ones_like(ids, dtype=torch.bool), shown, real, shown[:, None],
        policy.block_size, policy.context, dtype=policy.dtype,
    )  # fmt: skip
    logits = policy.forward(
        columns.input_ids, columns.position_ids, columns.attention, columns=columns.noisy_from[0]
    )
    logits[..., policy.mask_token_id] = float("-inf")
    return logits


def exact_law(policy: Policy, prompt: Sequence[int], tau: float, fallback: Fallback) -> Law:
    """Probability of every block that decoding at temperature 1 can give, all paths summed."""
    B, mask_id = policy.block_size, policy.mask_token_id
    ids = [token for token in range(policy.model.config.vocab_size) if token != mask_id]
    found: Law = {}
    todo = [((mask_id,) * B, 1.0)]
    while todo:
        canvas, mass = todo.pop()
        if mask_id not in canvas:
            found[canvas] = found.get(canvas, 0.0) + mass
            continue
        logits = canvas_law(policy, prompt, canvas)
        sure = propose(logits, 0.0, None).confidence
        open_ = torch.tensor([[token == mask_id for token in canvas]])
        commit = choose("threshold", logits, sure, open_, tau, 1, fallback)[0].nonzero()[:, 0]
        law = logits[0].double().softmax(-1)
        for drawn in itertools.product(ids, repeat=len(commit)):
            new, chance = list(canvas), mass
            for place, token in zip(commit.tolist(), drawn, strict=True):
                new[place], chance = token, chance * float(law[place, token])
            if chance > 1e-12:
                todo.append((tuple(new), chance))
    return found


def mean_field_law(policy: Policy, prompt: Sequence[int]) -> Law:
    """Probability of every block if all its tokens were committed at once."""
    return exact_law(policy, prompt, -1.0, "leftmost")


def bias_table(policy: Policy, taus: Sequence[float] = (1.0, 0.6, 0.4, 0.0)) -> pd.DataFrame:
    """Exact law against mean-field for each tau, on the enumerable world.

    valid: mass on orders of the three items. bias: mean over the exact law of log p(mean-field)
    less log p(exact), in nats. distance: total variation, from 0 to 1.
    """
    rows = []
    cheap = mean_field_law(policy, ITEMS)
    for tau in taus:
        exact = exact_law(policy, ITEMS, tau, "leftmost")
        keys = sorted({*exact, *cheap})
        p, q = (np.array([law.get(key, 0.0) for key in keys]) for law in (exact, cheap))
        order = np.array([sorted(key) == sorted(ITEMS) for key in keys])
        seen = p > 0
        rows.append(
            {
                "tau": tau,
                "valid": p[order].sum(),
                "valid_mean_field": q[order].sum(),
                "bias": float((p[seen] * np.log(np.maximum(q[seen], 1e-12) / p[seen])).sum()),
                "distance": float(np.abs(p - q).sum() / 2),
            }
        )
    return pd.DataFrame(rows)
