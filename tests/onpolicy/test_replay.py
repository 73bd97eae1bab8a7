"""Replay scores each commit on its own canvas, exactly."""

import itertools
import math

import pytest
import torch

from diffgr2lib.decode.ar import decode_ar
from diffgr2lib.decode.block import decode_blocks
from diffgr2lib.decode.commit import choose, propose
from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.onpolicy.replay import replay, replay_reference
from diffgr2lib.onpolicy.rollout import roll_out
from tests.tiny import make_tiny, ragged_prompts, seeded, settings


@pytest.mark.parametrize("context", ["block", "causal"])
@pytest.mark.parametrize("block_size", [1, 2, 4, 5])
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_claim_23_replay_equals_the_behaviour_log_probability(context, block_size, temperature):
    policy = make_tiny(block_size, context)
    prompt, mask = ragged_prompts(5)
    config = settings(temperature=temperature, tau=0.3, max_new_tokens=12)
    made = decode_blocks(policy, prompt, mask, config, seeded(5)).trajectories
    assert block_size == 1 or max(max(one.reveal_step) for one in made) > 0
    with torch.no_grad():
        found = replay(policy.forward, policy, made)
    for n, one in enumerate(made):
        recorded = torch.tensor(one.log_probability)
        assert torch.allclose(found[n, : len(recorded)], recorded, atol=1e-5)
        assert not found[n, len(recorded) :].any()
        slow = torch.tensor(replay_reference(policy, one))
        assert torch.allclose(slow, recorded, atol=1e-5)
        ratio = (found[n, : len(recorded)] - recorded).exp()
        assert torch.allclose(ratio, torch.ones_like(ratio), atol=1e-4)


def test_claim_23_one_clean_forward_is_not_a_replay():
    """The shortcut that the replay exists to replace is wrong by far, so the claim can fail."""
    policy = make_tiny(4, "block")
    prompt, mask = ragged_prompts(4)
    config = settings(temperature=1.0, tau=0.3, max_new_tokens=12)
    made = decode_blocks(policy, prompt, mask, config, seeded(4)).trajectories
    shown_at_once = [
        Trajectory(**{**one.to_json(), "reveal_step": tuple(0 for _ in one.tokens)}) for one in made
    ]
    with torch.no_grad():
        right, wrong = (replay(policy.forward, policy, rows) for rows in (made, shown_at_once))
    assert float((right - wrong).abs().max()) > 0.1


def test_claim_23_the_ar_loop_is_replayed_too():
    policy = make_tiny(1)
    prompt, mask = ragged_prompts(4)
    config = settings(temperature=1.0, max_new_tokens=10)
    made = decode_ar(policy, prompt, mask, config, seeded(4)).trajectories
    with torch.no_grad():
        found = replay(policy.forward, policy, made)
    for n, one in enumerate(made):
        recorded = torch.tensor(one.log_probability)
        assert torch.allclose(found[n, : len(recorded)], recorded, atol=1e-5)


def enumerate_block(policy, prompt, tau, temperature):
    """Every trajectory of one block, by walking all tokens at each step's commit set."""
    B, mask_id = policy.block_size, policy.mask_token_id
    ids = [token for token in range(policy.model.config.vocab_size) if token != mask_id]
    done, todo = [], [((mask_id,) * B, (-1,) * B, 0)]
    while todo:
        canvas, revealed, step = todo.pop()
        gap = canvas.index(mask_id) if mask_id in canvas else B
        if gap == B or policy.eos_token_id in canvas[:gap]:
            done.append((canvas, revealed))
            continue
        logits = canvas_law(policy, prompt, canvas)
        open_ = torch.tensor([[token == mask_id for token in canvas]])
        sure = propose(logits, 0.0, None).confidence
        commit = choose("threshold", logits, sure, open_, tau, 1)[0].nonzero()[:, 0].tolist()
        for drawn in itertools.product(ids, repeat=len(commit)):
            new, when = list(canvas), list(revealed)
            for place, token in zip(commit, drawn, strict=True):
                new[place], when[place] = token, step
            todo.append((tuple(new), tuple(when), step + 1))
    return [
        Trajectory(tuple(prompt), t, r, (0.0,) * B, (0.0,) * B, B, temperature, B, 1)
        for t, r in done
    ]


def canvas_law(policy, prompt, canvas):
    """Shifted logits [1, B, V] of a first block, without a cache."""
    ids = torch.tensor([[*prompt, *canvas]])
    P, B = len(prompt), len(canvas)
    seen = torch.ones(P + B, P + B).tril().bool()
    seen[P:, P:] = True
    mask = torch.zeros(1, 1, P + B, P + B).masked_fill(~seen, float("-inf"))
    with torch.no_grad():
        logits = policy.forward(ids, torch.arange(P + B)[None], mask)[:, P - 1 : P + B - 1]
    logits[..., policy.mask_token_id] = float("-inf")
    return logits


@pytest.mark.parametrize("tau", [0.0, 0.35, 2.0])
@pytest.mark.parametrize("temperature", [0.8, 1.0])
def test_claim_24_probabilities_of_all_trajectories_sum_to_one(tau, temperature):
    policy = make_tiny(3, "block", vocabulary=6)
    every = enumerate_block(policy, [2, 3, 4], tau, temperature)
    assert len(every) > 5
    with torch.no_grad():
        total = sum(
            float(replay(policy.forward, policy, every[i : i + 32]).double().sum(1).exp().sum())
            for i in range(0, len(every), 32)
        )
    assert math.isclose(total, 1.0, abs_tol=1e-5)


def test_a_rollout_does_not_depend_on_its_batch():
    policy = make_tiny(4, "block")
    prompts = [[2, 3, 4], [5, 6], [7, 8, 9, 10]]
    config = settings(temperature=1.0, tau=0.5)
    whole = roll_out(policy, prompts, 2, config, [1, 5], batch=64)
    parts = roll_out(policy, prompts, 2, config, [1, 5], batch=4)
    other = roll_out(policy, prompts, 2, config, [1, 6], batch=64)
    assert [one.tokens for one in whole] == [one.tokens for one in parts]
    assert [one.tokens for one in whole] != [one.tokens for one in other]
    assert whole[0].tokens != whole[1].tokens
