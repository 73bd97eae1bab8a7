"""Replayed guesses are exact: the top one at a commit has the recorded confidence."""

import numpy as np
import pytest

from diffgr2lib.decode.ar import decode_ar
from diffgr2lib.decode.block import decode_blocks
from diffgr2lib.errors import ModelError
from diffgr2lib.report import alternatives as module
from diffgr2lib.report.alternatives import alternatives
from tests.tiny import ragged_prompts, settings


@pytest.mark.parametrize("context", ["block", "causal"])
def test_the_likeliest_token_has_the_recorded_confidence(make_policy, context):
    policy = make_policy(4, context)
    for one in decode_blocks(policy, *ragged_prompts(), settings(tau=0.4)).trajectories:
        check(policy, one)


def test_so_it_is_for_ar(make_policy):
    policy = make_policy(1)
    for one in decode_ar(policy, *ragged_prompts(), settings()).trajectories:
        check(policy, one)


def check(policy, one):
    found = alternatives(policy, one)
    for place, revealed in enumerate(one.reveal_step):
        if revealed < 0:
            assert found.top[place] == ()
            continue
        (token, p), *others = found.top[place]
        assert token == one.tokens[place] and len(others) == 4
        assert p == pytest.approx(one.confidence[place], abs=2e-5)
        assert found.confidence[revealed, place] == pytest.approx(p)
        assert np.isnan(found.confidence[revealed + 1 :, place]).all()
        assert not np.isnan(found.confidence[: revealed + 1, place]).any()
        assert [q for _, q in others] == sorted((q for _, q in others), reverse=True)


def test_small_chunks_give_the_same(make_policy, monkeypatch):
    policy = make_policy(4, "block")
    one = decode_blocks(policy, *ragged_prompts(), settings(tau=0.4)).trajectories[0]
    whole = alternatives(policy, one)
    monkeypatch.setattr(module, "COLUMNS", 2 * len(one.tokens))
    parts = alternatives(policy, one)
    np.testing.assert_allclose(whole.confidence, parts.confidence, atol=1e-5)
    assert [[t for t, _ in row] for row in whole.top] == [[t for t, _ in row] for row in parts.top]


def test_a_foreign_trajectory_is_refused(make_policy):
    one = decode_blocks(make_policy(4), *ragged_prompts(), settings()).trajectories[0]
    with pytest.raises(ModelError, match="give the policy that decoded it"):
        alternatives(make_policy(4, vocabulary=6), one)
