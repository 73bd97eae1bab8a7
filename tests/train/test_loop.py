"""The loop: claim 11 (batch layout changes nothing), resuming, refusing a loss that is not finite."""

import dataclasses

import numpy as np
import pytest
import torch

from diffgr2lib.config import StageTrain
from diffgr2lib.errors import ModelError
from diffgr2lib.model.policy import convert
from diffgr2lib.train.loop import fit
from diffgr2lib.train.mid import DictionaryRows
from diffgr2lib.train.objectives import Supervised

CONFIG = StageTrain(steps=4, batch=6, eval_every=1, checkpoint_every=1)


def objective(policy, rows, diffusion=False, **options):
    return Supervised(policy, rows, 6, seed=3, diffusion=diffusion, **options)


def weights(policy):
    return torch.cat([p.detach().flatten() for p in policy.model.parameters()])


@pytest.mark.parametrize("diffusion", [False, True])
def test_claim_11_micro_batches_give_the_loss_and_gradient_of_the_batch(
    fresh, rows, tmp_path, diffusion
):
    found = []
    for micro in (0, 1, 4):
        policy = convert(fresh(), 8, "block") if diffusion else fresh()
        config = dataclasses.replace(CONFIG, steps=2, micro_batch=micro)
        work = tmp_path / f"{micro}"
        history = fit(policy, objective(policy, rows, diffusion), config, work, "t")
        found.append(([record["loss"] for record in history], weights(policy)))
    for losses, final in found[1:]:
        assert np.allclose(losses, found[0][0], atol=1e-5)
        assert (final - found[0][1]).abs().max() < 1e-3


def test_every_response_token_is_supervised_once_per_pair(fresh, rows):
    policy = convert(fresh(), 8, "block")
    batch = objective(policy, rows, diffusion=True).batch(0)
    assert (batch.masks.sum(1) == batch.response_mask.long()).all()


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_claim_32_a_run_cut_off_and_resumed_ends_with_the_same_weights(fresh, rows, tmp_path, stop):
    whole = fresh()
    history = fit(whole, objective(whole, rows), CONFIG, tmp_path / "whole", "t")

    class Cut(Exception):
        pass

    def cut(step):
        if step == stop + 1:
            raise Cut
        return {}

    broken = fresh()
    with pytest.raises(Cut):
        fit(broken, objective(broken, rows), CONFIG, tmp_path / "broken", "t", probe=cut)
    again = fresh()
    resumed = fit(again, objective(again, rows), CONFIG, tmp_path / "broken", "t")
    assert torch.equal(weights(again), weights(whole))
    assert [r["loss"] for r in resumed] == [r["loss"] for r in history]


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_not_finite_stops_with_step_and_rows(fresh, rows, tmp_path, poison):
    policy = fresh()

    class Poisoned(Supervised):
        def loss(self, score, batch):
            loss, sums = super().loss(score, batch)
            return (loss * poison if self.poison else loss), sums

        def batch(self, step):
            self.poison = step == 2
            return super().batch(step)

    bad = Poisoned(policy, rows, 6, seed=3)
    with pytest.raises(ModelError, match=r"step 2, rows user \d+") as caught:
        fit(policy, bad, CONFIG, tmp_path, "sft")
    assert "sft" in str(caught.value)
    assert [folder.name for folder in tmp_path.glob("step-*")] == ["step-0000002"]


def test_training_stops_when_it_is_enough_and_stays_stopped(fresh, rows, tmp_path):
    policy = fresh()
    history = fit(
        policy, objective(policy, rows), CONFIG, tmp_path, "t",
        probe=lambda step: {"skill": float(step >= 2)}, enough=lambda r: r["skill"] > 0.5,
    )  # fmt: skip
    assert [record["step"] for record in history] == [1, 2]
    again = fresh()
    resumed = fit(
        again, objective(again, rows), CONFIG, tmp_path, "t",
        probe=lambda step: {"skill": 1.0}, enough=lambda r: r["skill"] > 0.5,
    )  # fmt: skip
    assert len(resumed) == 2 and torch.equal(weights(again), weights(policy))


def test_an_epoch_visits_every_row_once(fresh, rows):
    policy = fresh()
    made = objective(policy, rows)
    keys = [key for step in range(2) for key in made.batch(step).keys]
    assert sorted(keys) == sorted(row.key for row in rows)


def test_dictionary_rows_ask_for_what_the_prompt_shows(fresh, tokenizer, grammar, catalogue):
    dictionary = DictionaryRows(tokenizer, grammar, catalogue, 10, 5, ranking=0.0)
    rng = np.random.default_rng(0)
    for number in range(30):
        row = dictionary.draw(rng, str(number))
        prompt = tokenizer.decode(row.prompt)
        assert tokenizer.unk_token_id not in [*row.prompt, *row.response]
        words = tokenizer.decode(row.response).split()
        places = [i for i, w in enumerate(words) if len(w) == 1 and w.isupper()]
        for place in places:
            assert " ".join(words[place : place + 3]) in prompt
        assert [row.weights[place] for place in places] == [0.0] * len(places)
