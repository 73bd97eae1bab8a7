"""RL: gradient only where rewards differ, ratio 1 at first, learning a reward it can reach."""

import dataclasses

import pytest
import torch

from diffgr2lib.config import Reinforcement, StageTrain
from diffgr2lib.onpolicy.rl import Judged, Reinforce
from diffgr2lib.train.loop import fit
from tests.tiny import NEVER, make_tiny, settings

PROMPTS = [[2, 3, 4], [5, 6], [7, 8, 9, 10], [11, 12, 13]]
NAMES = [f"user {n}" for n in range(4)]
TRAIN = StageTrain(steps=2, batch=2, lr=1e-3, lr_embed=1e-3, eval_every=1)


def likes_even(n, tokens):
    """A reward that the policy can learn: the share of even tokens."""
    return Judged(sum(token % 2 == 0 for token in tokens) / len(tokens), True, False)


def reinforce(policy, judge=likes_even, reference=None, **options):
    chosen = Reinforcement(**{"group": 4, "tau": 0.3, "temperature": 1.0, **options})
    decode = settings(max_new_tokens=8)
    return Reinforce(policy, PROMPTS, NAMES, judge, TRAIN, chosen, decode, 0, reference)


def flat_gradient(policy):
    grads = [p.grad for p in policy.model.parameters() if p.grad is not None]
    return torch.cat([g.flatten() for g in grads]) if grads else torch.zeros(1)


@pytest.mark.parametrize("block_size", [1, 4])
def test_claim_23_ratio_is_one_at_the_first_update(block_size):
    policy = make_tiny(block_size, "block" if block_size > 1 else "causal")
    objective = reinforce(policy)
    batch = objective.batch(0)
    loss, sums = objective.loss(policy.forward, batch)
    want = -(batch.advantages[:, None] * batch.weights).sum()  # every ratio is 1
    assert torch.allclose(loss, want, atol=1e-3) and sums["clipped"] == 0
    assert sums["entropy"] > 0


def test_claim_27_groups_without_variance_give_no_gradient():
    policy = make_tiny(4, "block")
    flat = reinforce(policy, lambda n, tokens: Judged(0.5, True, False))
    batch = flat.batch(0)
    assert len(batch.keys) == 0 and batch.report["dropped"] == 1.0
    only = PROMPTS.index([5, 6])
    mixed = reinforce(
        policy, lambda n, t: likes_even(n, t) if n == only else Judged(0.5, True, False), rounds=4
    )
    batch = mixed.batch(0)
    assert batch.keys and set(batch.keys) == {NAMES[only]}
    # an advantage of 0 moves no weight, whatever the ratio
    still = dataclasses.replace(batch, advantages=torch.zeros(len(batch.keys)))
    mixed.loss(policy.forward, still)[0].backward()
    assert not flat_gradient(policy).any()
    mixed.loss(policy.forward, batch)[0].backward()
    assert flat_gradient(policy).any()


def test_parts_add_up_to_the_whole():
    policy = make_tiny(4, "block")
    objective = reinforce(policy)
    batch = objective.batch(0)
    objective.loss(policy.forward, batch)[0].backward()
    whole = flat_gradient(policy)
    policy.model.zero_grad()
    for n in range(0, len(batch.keys), 3):
        part = batch.part(slice(n, n + 3), policy.device)
        objective.loss(policy.forward, part)[0].backward()
    assert torch.allclose(flat_gradient(policy), whole, atol=1e-4 * float(whole.abs().max()))


def test_a_ratio_beyond_the_clip_moves_nothing_further():
    policy = make_tiny(4, "block")
    objective = reinforce(policy)
    batch = objective.batch(0)
    lowered = tuple(
        dataclasses.replace(one, log_probability=tuple(p - 2.0 for p in one.log_probability))
        for one in batch.trajectories
    )  # every ratio is e^2
    good = dataclasses.replace(batch, trajectories=lowered, advantages=torch.ones(len(batch.keys)))
    loss, sums = objective.loss(policy.forward, good)
    loss.backward()
    assert not flat_gradient(policy).any() and sums["clipped"] == sums["clipped_n"]
    assert torch.allclose(loss, -1.28 * good.weights.sum(), rtol=1e-5)
    bad = dataclasses.replace(good, advantages=-good.advantages)
    objective.loss(policy.forward, bad)[0].backward()
    assert flat_gradient(policy).any()  # too likely and bad: it must come down


def test_the_kl_term_holds_the_policy_to_its_reference():
    policy, reference = make_tiny(4, "block"), make_tiny(4, "block", seed=2)
    plain, held = reinforce(policy), reinforce(policy, reference=reference, kl=0.5)
    batch = plain.batch(0)
    apart = held.loss(policy.forward, batch)[0] - plain.loss(policy.forward, batch)[0]
    assert float(apart) > 0.1
    same = reinforce(policy, reference=make_tiny(4, "block"), kl=0.5)
    assert torch.allclose(
        same.loss(policy.forward, batch)[0], plain.loss(policy.forward, batch)[0], atol=1e-3
    )


def test_steps_that_share_rollouts_draw_them_once():
    objective = reinforce(make_tiny(4, "block"), updates=2)
    assert objective.batch(0) is objective.batch(1)
    assert objective.batch(2) is not objective.batch(1)


@pytest.mark.parametrize("block_size", [1, 4])
def test_the_reward_rises(tmp_path, block_size):
    policy = make_tiny(block_size, "block" if block_size > 1 else "causal", end=NEVER)
    objective = reinforce(policy, group=8)
    objective.size = 4
    train = StageTrain(steps=25, batch=4, lr=0.003, lr_embed=0.003, warmup=0.0, eval_every=1)
    history = fit(policy, objective, train, tmp_path, "rl")
    first, last = ([r["reward"] for r in history[part]] for part in (slice(0, 5), slice(-5, None)))
    assert sum(last) / 5 > sum(first) / 5 + 0.15
    assert {"entropy", "clipped", "dropped", "copied", "valid_rollouts"} <= set(history[-1])
