"""Serving: the same prompts and answers as the evaluation, and errors that name the row."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from diffgr2lib.artifacts import Store
from diffgr2lib.decode.ar import decode_ar
from diffgr2lib.decode.prepare import pad_left
from diffgr2lib.errors import ArtifactError, DataError, ModelError
from diffgr2lib.model.checkpoint import load
from diffgr2lib.presets import PRESETS
from diffgr2lib.serve import Reranker
from diffgr2lib.serve.__main__ import main
from diffgr2lib.serve.reranker import save_twin, serving
from diffgr2lib.stages import Stages
from diffgr2lib.train.rows import encode_prompt

SMOKE = PRESETS["smoke"]
QUICK = dataclasses.replace(
    SMOKE,
    sft=dataclasses.replace(SMOKE.sft, steps=2),
    decode=dataclasses.replace(SMOKE.decode, max_new_tokens=160),
)


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    return Stages(QUICK, Store(tmp_path_factory.mktemp("store")), 0)


@pytest.fixture(scope="module")
def made(stages):
    return serving(stages, "naive")


@pytest.fixture(scope="module")
def reranker(stages, made):
    return Reranker.from_artifact(made.key, stages.store)


def asked(examples, reranker):
    """Histories (as many purchases as are shown) and candidates of test lists."""
    return (
        [[item.id for item in one.history] for one in examples],
        [[c.item.id for c in one.candidates] for one in examples],
    )


def test_the_evidence_is_that_of_the_test_lists(stages, reranker):
    examples = stages.world.test
    window = reranker.shop.settings.window
    assert window <= QUICK.data.history_shown  # so that what is shown is all that is scored
    served = reranker.shop.examples(reranker.retriever, *asked(examples, reranker))
    for one, other in zip(examples, served, strict=True):
        assert one.history == other.history and one.candidates == other.candidates


def test_answers_are_those_of_the_evaluation(stages, reranker):
    examples = stages.world.test[:6]
    found = stages.evaluation("naive", QUICK.decode, "test", 6)
    answers = reranker.rank(*asked(examples, reranker))
    for n, (one, answer) in enumerate(zip(examples, answers, strict=True)):
        target = one.candidates[one.target].item.id
        assert answer.ranking.index(target) + 1 == found.ranks[n]
        assert list(answer.failures) == found.failures[n] and answer.nfe == found.nfe[n]
        assert answer.valid == (not found.failures[n]) and found.texts[n].startswith(answer.trace)


def test_one_user_is_ranked_as_in_a_batch(stages, reranker):
    histories, candidates = asked(stages.world.test[:3], reranker)
    alone = reranker.rank(histories[1], candidates[1])
    batch = reranker.rank(histories, candidates)[1]
    assert dataclasses.replace(alone, seconds=0) == dataclasses.replace(batch, seconds=0)


def test_an_invalid_answer_keeps_the_given_order(stages, reranker):
    histories, candidates = asked(stages.world.test[:1], reranker)
    turned = candidates[0][::-1]
    answer = reranker.rank(histories[0], turned)
    assert sorted(answer.ranking) == sorted(turned)
    assert answer.valid or list(answer.ranking) == turned


def test_fewer_candidates_may_be_given(reranker):
    answer = reranker.rank([3, 7], [11, 12, 13])
    assert sorted(answer.ranking) == [11, 12, 13]


@pytest.mark.parametrize(
    ("histories", "candidates", "says"),
    [
        ([[1], []], [[2, 3], [2, 3]], "Row 1: the history is empty"),
        ([[1]], [[2, 99999]], "Row 0: 99999 among the candidates is no item"),
        ([[0]], [[2, 3]], "Row 0: 0 among the history"),
        ([["one"]], [[2, 3]], "'one' among the history"),
        ([[True]], [[2, 3]], "True among the history"),
        ([[1]], [[2]], "1 candidates; give 2 to 10"),
        ([[1]], [list(range(1, 12))], "11 candidates"),
        ([[1]], [[2, 2]], "candidate 2 is named more than once"),
        ([[1]], [[2, 3], [2, 3]], "1 histories with 2 lists"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_request_is_refused_and_its_row_named(reranker, histories, candidates, says):
    with pytest.raises(DataError) as error:
        reranker.rank(histories, candidates)
    assert says in str(error.value)


def test_refit_changes_what_is_known_of_items_and_not_the_model(reranker):
    newer = [(1, 2), (1, 2), (1, 2)]
    other = reranker.refit(newer)
    before = reranker.shop.examples(reranker.retriever, [[1]], [[2, 3]])[0]
    after = other.shop.examples(other.retriever, [[1]], [[2, 3]])[0]
    assert after.candidates[0].follow == 3 and other.policy is reranker.policy
    assert before.candidates[0].item == after.candidates[0].item


def test_a_copy_stands_alone_and_says_so_when_it_is_broken(stages, made, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(made.path, copy)
    history, candidates = [5, 9], [1, 2, 3, 4]
    answer = Reranker.from_folder(copy).rank(history, candidates)
    assert sorted(answer.ranking) == candidates
    names = json.loads((copy / "shop.json").read_text())
    assert "users" not in names["catalogue"] and isinstance(names["purchases"][0], list)
    (copy / "shop.json").write_text("{}")
    with pytest.raises(DataError, match="diffgr2lib.serve"):
        Reranker.from_folder(copy)
    (copy / "serving.json").unlink()
    with pytest.raises(ModelError, match="diffgr2lib.serve"):
        Reranker.from_folder(copy)


def test_a_key_that_is_not_there_is_named(stages, made):
    with pytest.raises(ArtifactError, match="prints its key"):
        Reranker.from_artifact("0" * 16, stages.store)


def test_the_twin_is_an_ordinary_causal_lm_that_generate_runs(stages, made, tmp_path):
    policy = load(made.path)
    save_twin(policy, tmp_path)
    assert not (tmp_path / "diffusion_config.json").exists()
    twin = AutoModelForCausalLM.from_pretrained(tmp_path)
    prompts = [encode_prompt(policy.tokenizer, stages.grammar, e) for e in stages.world.test[:3]]
    one = dataclasses.replace(policy, block_size=1, context="causal")
    prompt, mask = pad_left(prompts, policy.pad_token_id)
    decode = dataclasses.replace(QUICK.decode, max_new_tokens=24)
    ours = decode_ar(one, prompt, mask, decode, record=False).tokens
    with torch.no_grad():
        theirs = twin.generate(
            input_ids=prompt, attention_mask=mask.long(), max_new_tokens=24,
            suppress_tokens=[policy.mask_token_id],
        )  # fmt: skip
    for own, row in zip(ours, theirs[:, prompt.shape[1] :].tolist(), strict=True):
        assert row[: len(own)] == own


def test_the_command_refuses_a_folder_that_is_there(tmp_path, capsys):
    assert main(["--preset", "smoke", "--system", "naive", "--out", str(tmp_path)]) == 2
    assert main(["--preset", "smoke", "--system", "nive"]) == 2
    said = capsys.readouterr().err
    assert "exists already" in said and "no system" in said


def test_numpy_ids_are_welcome(reranker):
    answer = reranker.rank(np.array([3, 7]), np.array([11, 12]))
    assert set(answer.ranking) == {11, 12}
