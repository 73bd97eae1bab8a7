"""CFT under other maskings: the default is the kit's stage, to the last bit."""

import numpy as np
import pytest
import torch

from diffgr2lib.ablate.masking import Masking
from diffgr2lib.ablate.objective import Varied, regrid
from diffgr2lib.ablate.onpolicy import as_trajectory, unconditional
from diffgr2lib.onpolicy.replay import every_step, last_steps, states
from diffgr2lib.onpolicy.rl import Judged
from diffgr2lib.train.objectives import Supervised
from diffgr2lib.train.rows import Row
from tests.tiny import END, MASK, PAD, make_tiny

LABELS = [5, 6, 7, 8]


def rows(count: int = 6) -> list[Row]:
    rng = np.random.default_rng(3)
    made = []
    for n in range(count):
        trace = rng.integers(10, 30, 6 + n).tolist()
        answer = [*rng.permutation(LABELS).tolist(), END]
        weights = [0.5] * len(trace) + [1.0] * len(answer)
        prompt = rng.integers(10, 30, 5 + n).tolist()
        made.append(Row(prompt, [*trace, *answer], weights, f"row {n}"))
    return made


def base(block_size=4, context="block", ar_weight=0.0) -> Supervised:
    policy = make_tiny(block_size, context)
    return Supervised(policy, rows(), 4, 0, diffusion=True, ar_weight=ar_weight)


def varied(masking: Masking, steps: int = 8, **of_base) -> Varied:
    return Varied(base(**of_base), masking, steps, LABELS, 1.0)


def value(objective, step: int) -> tuple[float, float]:
    batch = objective.batch(step)
    loss, _ = objective.loss(objective_policy(objective).forward, batch)
    return float(loss.detach()), float(batch.weights.sum())


def objective_policy(objective):
    return objective.policy if isinstance(objective, Supervised) else objective.base.policy


@pytest.mark.parametrize(("context", "ar_weight"), [("block", 0.0), ("causal", 1.0)])
def test_the_default_masking_is_the_kits_own_objective(context, ar_weight):
    own = base(context=context, ar_weight=ar_weight)
    other = varied(Masking(), context=context, ar_weight=ar_weight)
    for step in range(3):
        assert value(other, step) == pytest.approx(value(own, step), rel=1e-6)


@pytest.mark.parametrize(
    "masking",
    [
        Masking(pair=False),
        Masking(law="clipped"),
        Masking(pair=False, law="later"),
        Masking(whole_answer=1.0),
        Masking(grow=True),
        Masking(whole_grid=True),
    ],
    ids=str,
)
def test_every_masking_learns_in_parts_what_it_learns_at_once(masking):
    made = varied(masking)
    score = made.base.policy.forward
    batch = made.batch(0)
    whole, _ = made.loss(score, batch)
    parts = sum(
        made.loss(score, batch.part(slice(n, n + 2), torch.device("cpu")))[0] for n in (0, 2)
    )
    assert float(whole) == pytest.approx(float(parts), rel=1e-5)
    assert float(whole) != pytest.approx(value(varied(Masking()), 0)[0], rel=1e-3)
    assert torch.equal(made.batch(0).weights, batch.weights)


def test_the_penalty_adds_to_the_loss_and_is_logged():
    plain, penalised = varied(Masking()), varied(Masking(over_full=2.0))
    score = penalised.base.policy.forward
    batch = penalised.batch(1)
    loss, sums = penalised.loss(score, batch)
    without, _ = plain.loss(plain.base.policy.forward, plain.batch(1))
    assert float(loss) == pytest.approx(float(without) + 2 * sums["over_full"], rel=1e-5)
    assert sums["over_full"] > 0


def test_a_grown_stage_ends_at_the_full_block_size():
    made = varied(Masking(grow=True), steps=6)
    assert [made.batch(step).block_size for step in range(6)] == [1, 1, 2, 2, 4, 4]


def test_regrid_moves_the_prompts_tail_and_never_masks_it():
    made = base()
    batch = made.batch(0)
    moved = regrid(batch, 4, PAD, END)
    for n in range(4):
        prompt = batch.prompt[n][batch.prompt_mask[n]].tolist()
        kept = moved.prompt[n][moved.prompt_mask[n]].tolist()
        over = len(prompt) % 4
        assert len(kept) % 4 == 0 and kept + moved.response[n][:over].tolist() == prompt
        assert not moved.weights[n][:over].any() and float(moved.weights[n][over]) > 0
    drawn = varied(Masking(whole_grid=True)).batch(0)
    assert not (drawn.rows.masks & (drawn.rows.weights == 0)[:, None]).any()


def test_a_text_as_a_trajectory_reveals_every_token_in_as_many_steps_as_told():
    row = rows()[2]
    made = as_trajectory(row, 4, END, 2, np.random.default_rng(0))
    assert made.tokens[: made.length] == tuple(row.response)
    assert len(made.tokens) % 4 == 0 and set(made.tokens[made.length :]) <= {END}
    assert last_steps([made]) == [[1] * (len(made.tokens) // 4)]
    shown = states([made], every_step([made]), PAD)
    assert torch.equal(shown.committed.sum(1)[0], shown.real[0].long())
    assert made.nfe == 1 + 2 * len(made.tokens) // 4 and MASK not in made.tokens


def test_the_unconditional_reward_pays_for_every_valid_answer():
    gains = {0: Judged(0.3, True, False), 1: Judged(-0.1, True, True), 2: Judged(-1, False, False)}
    judge = unconditional(lambda n, tokens: gains[n], 0.2)
    assert [judge(n, []).reward for n in range(3)] == pytest.approx([0.5, 0.1, -1])
