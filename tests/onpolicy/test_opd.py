"""Distillation: zero where it must be, the right positions, the CFT mix-in."""

import numpy as np
import pytest
import torch

from diffgr2lib.config import Distillation, StageTrain
from diffgr2lib.model.policy import convert
from diffgr2lib.onpolicy.opd import Distil, chosen_targets, one_step, right_visible, sight
from diffgr2lib.onpolicy.replay import every_step, last_steps, states
from diffgr2lib.onpolicy.rollout import roll_out
from diffgr2lib.train.loop import fit
from diffgr2lib.train.objectives import Supervised
from diffgr2lib.train.rows import Row
from tests.tiny import make_tiny, settings

PROMPTS = [[2, 3, 4], [5, 6], [7, 8, 9, 10], [11, 12, 13]]
NAMES = [f"user {n}" for n in range(4)]
TRAIN = StageTrain(steps=2, batch=2, lr=1e-3, lr_embed=1e-3, eval_every=1)


def distil(policy, teacher, cft=None, **options):
    chosen = Distillation(**{"samples": 2, "temperature": 1.0, "tau": 0.3, **options})
    return Distil(
        policy, teacher, PROMPTS, NAMES, lambda tokens: [1.0] * len(tokens), TRAIN, chosen,
        settings(), seed=0, cft=cft,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["forward", "reverse", "jsd"])
def test_claim_25_loss_is_zero_for_the_same_weights_at_block_size_one(kind):
    policy = make_tiny(1)
    objective = distil(policy, make_tiny(1), divergence=kind)
    loss, sums = objective.loss(policy.forward, objective.batch(0))
    assert sums["tokens"] > 10 and abs(float(loss)) < 1e-4 * sums["tokens"]


@pytest.mark.parametrize("block_size", [2, 4, 5])
def test_claim_25_block_starts_are_zero_under_causal_context(block_size):
    policy = make_tiny(block_size, "causal")
    objective = distil(policy, make_tiny(1), states="all", targets="masked")
    _, sums = objective.loss(policy.forward, objective.batch(0))
    assert sums["kl_start_n"] > 3 and sums["kl_start"] / sums["kl_start_n"] < 1e-5
    assert sums["kl_hidden"] / sums["kl_hidden_n"] > 1e-3  # the rest is not zero: it can fail
    apart = make_tiny(block_size, "block")
    other = distil(apart, make_tiny(1), states="all", targets="masked")
    _, sums = other.loss(apart.forward, other.batch(0))
    assert sums["kl_start"] > 1e-3


def shown_states(choice="all"):
    policy = make_tiny(4, "block")
    made = roll_out(policy, PROMPTS, 3, settings(temperature=1.0, tau=0.3), [0])
    steps = every_step(made) if choice == "all" else one_step(made, np.random.default_rng(0))
    return made, states(made, steps, 0)


@pytest.mark.parametrize("choice", ["all", "one"])
def test_targets_are_the_positions_they_are_named_after(choice):
    made, shown = shown_states(choice)
    taught = {
        name: chosen_targets(shown, 4, Distillation(targets=name)) > 0
        for name in ("masked", "committed", "frontier")
    }
    blind = right_visible(shown, 4)
    for n, one in enumerate(made):
        for c in range(shown.step.shape[1]):
            for start in range(0, len(one.tokens), 4):
                step = int(shown.step[n, c, start])
                if step < 0:
                    assert not taught["masked"][n, c, start : start + 4].any()
                    continue
                canvas = one.canvas(step, -7)[start : start + 4]
                for k, token in enumerate(canvas):
                    open_, right = token == -7, any(t != -7 for t in canvas[k + 1 :])
                    at = (n, c, start + k)
                    assert bool(taught["masked"][at]) == open_
                    assert bool(taught["frontier"][at]) == (open_ and not right)
                    assert bool(blind[at]) == right
                    now = one.reveal_step[start + k] == step
                    assert bool(taught["committed"][at]) == now


def test_sight_partitions_the_masked_positions():
    _, shown = shown_states()
    parts = sight(shown, 4)
    assert (torch.stack([*parts.values()]).sum(0) == shown.masked.long()).all()
    assert all(part.any() for part in parts.values())
    assert not (parts["start"].view(*shown.step.shape[:2], -1, 4)[..., 1:]).any()


def test_one_step_draws_a_step_that_the_block_took():
    made, shown = shown_states("one")
    for n, row in enumerate(last_steps(made)):
        for b, last in enumerate(row):
            assert 0 <= int(shown.step[n, 0, 4 * b]) <= last
    assert (shown.committed.view(len(made), 1, -1, 4).any(-1) == (shown.step[:, :, ::4] >= 0)).all()


def test_blind_weight_counts_positions_with_a_commit_to_their_right():
    _, shown = shown_states()
    half = chosen_targets(shown, 4, Distillation(targets="masked", blind_weight=0.5))
    blind = right_visible(shown, 4) & shown.masked
    assert blind.any() and (half[blind] == 0.5).all()
    assert (half[shown.masked & ~blind] == 1.0).all()


def test_parts_add_up_to_the_whole_with_cft_rows_mixed_in():
    policy = make_tiny(4, "block")
    rows = [Row([2, 3], [4, 5, 6, 7, 1], [1.0] * 5, f"row {n}") for n in range(3)]
    cft = Supervised(policy, rows, 3, seed=0, diffusion=True)
    objective = distil(policy, make_tiny(1, seed=1), cft, cft_weight=0.5)
    batch = objective.batch(0)
    whole, _ = objective.loss(policy.forward, batch)
    parts = [
        objective.loss(policy.forward, batch.part(slice(n, n + 1), policy.device))[0]
        for n in range(len(batch.keys))
    ]
    assert torch.allclose(sum(parts), whole, rtol=1e-4)
    plain, _ = distil(policy, make_tiny(1, seed=1)).loss(policy.forward, batch)
    assert float(whole - plain) > 0.1
    assert float(batch.weights.sum()) > float(batch.taught.sum())


def test_distillation_lowers_the_divergence(tmp_path):
    teacher = make_tiny(1)
    policy = convert(make_tiny(4, seed=3), 4, "block")
    objective = distil(policy, teacher, temperature=0.5)
    train = StageTrain(steps=30, batch=4, lr=0.01, lr_embed=0.003, eval_every=1)
    objective.size = 4
    history = fit(policy, objective, train, tmp_path, "opd")
    assert history[-1]["kl_visible"] < 0.6 * history[0]["kl_visible"]
    assert {"kl_start", "kl_hidden", "rollout_tpf", "accuracy"} <= set(history[-1])
