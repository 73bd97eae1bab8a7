"""The compiled level gives the uncompiled loops' answers. No C++ compiler is needed: `eager`."""

from dataclasses import replace

import pytest
import torch

from diffgr2lib.decode import decode_ar, decode_blocks
from diffgr2lib.measure.compiled import compiled
from diffgr2lib.model.cache import BUCKET
from diffgr2lib.model.masks import CONTEXTS, Context
from tests.tiny import MakePolicy, ragged_prompts, settings


@pytest.mark.parametrize("context", CONTEXTS)
def test_compiled_block_decoding_equals_the_plain_loop(
    make_policy: MakePolicy, context: Context
) -> None:
    policy = make_policy(4, context, torch.float64, end=7)
    fast, prompts = compiled(policy, "eager"), ragged_prompts(6)
    for tau in (0.0, 0.3, 2.0):
        plain = decode_blocks(policy, *prompts, settings(tau=tau))
        assert len(set(plain.nfe)) > 1  # rows wait and leave, so that passes are padded
        again = decode_blocks(fast, *prompts, settings(tau=tau))
        assert again.tokens == plain.tokens and again.nfe == plain.nfe


def test_compiled_ar_equals_the_plain_loop(make_policy: MakePolicy) -> None:
    policy = make_policy(1, dtype=torch.float64, end=33)
    prompts = ragged_prompts(6)
    plain = decode_ar(policy, *prompts, settings())
    assert len(set(map(len, plain.tokens))) > 1
    assert decode_ar(compiled(policy, "eager"), *prompts, settings()).tokens == plain.tokens


def test_a_decoding_call_meets_two_shapes(make_policy: MakePolicy) -> None:
    """The canvas, and the finished block with the next canvas: whatever the rows do."""
    policy = make_policy(4, "block", torch.float64, end=7)
    shapes = set()

    def run(model, cache, ids, positions, attention, store, at, columns):
        shapes.add((tuple(ids.shape), tuple(attention.shape[2:]), tuple(store.shape), str(columns)))
        return fast.run(model, cache, ids, positions, attention, store, at, columns)

    fast = compiled(policy, "eager")
    decode_blocks(replace(fast, run=run), *ragged_prompts(6), settings(tau=0.3))
    assert {(ids[1], hidden[1]) for ids, hidden, _, _ in shapes} == {(4, BUCKET), (8, BUCKET)}
    assert len(shapes) == 2
