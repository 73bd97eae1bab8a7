"""Claims 3, 7 (tokens), 14 to 18 and 20."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from diffgr2lib.decode import block
from diffgr2lib.decode.block import Run, canvas_logits, decode_blocks
from diffgr2lib.decode.trajectory import Decoded
from diffgr2lib.errors import ModelError
from diffgr2lib.model.columns import build_columns
from diffgr2lib.model.masks import CONTEXTS, Context
from diffgr2lib.model.policy import Policy
from tests.tiny import MASK, NEVER, MakePolicy, ragged_prompts, seeded, settings

Seen = dict[tuple[int, int, int], tuple[Tensor, Tensor]]


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    """Record, per (row, block start, step), the canvas and shifted logits that the step used."""
    seen: Seen = {}
    original = Run.step

    def step(run: Run, rows: Tensor, start: int, index: int, logits: Tensor) -> Tensor:
        canvas = run.tokens[rows, start : start + logits.shape[1]]
        for slot, row in enumerate(rows.tolist()):
            seen[row, start, index] = canvas[slot].clone(), logits[slot].clone()
        return original(run, rows, start, index, logits)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "step", step)
        yield seen


def worst_error(policy: Policy, prompt: Tensor, mask: Tensor, out: Decoded, seen: Seen) -> float:
    """Largest difference between decoding's logits and the training columns' at the same canvas."""
    B, worst = policy.block_size, 0.0
    for (row, start, _), (canvas, logits) in seen.items():
        width = start + B
        clean = torch.tensor([out.trajectories[row].tokens[:width]])
        noisy = clean.clone()
        noisy[0, start:] = canvas
        one = slice(row, row + 1)
        real = torch.ones_like(clean, dtype=torch.bool)
        columns = build_columns(
            prompt[one], mask[one], clean, real, noisy[:, None], B, policy.context, policy.dtype
        )
        expected = policy.forward(
            columns.input_ids,
            columns.position_ids,
            columns.attention,
            columns=columns.noisy_from[0, start:],
        )
        worst = max(worst, float((expected[0] - logits).abs().max()))
    return worst


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("fused", [True, False])
def test_claim_03_cached_block_decoding_equals_training_columns(
    make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch, context: Context, fused: bool
) -> None:
    for B in (1, 3, 4):
        policy = make_policy(B, context, end=NEVER)
        prompt, mask = ragged_prompts()
        config = settings(tau=0.3, max_new_tokens=12, fused=fused, temperature=1.0)
        with watched(monkeypatch) as seen:
            out = decode_blocks(policy, prompt, mask, config, seeded(3))
        assert len(seen) >= 3 * 12 // B
        with torch.inference_mode():
            assert worst_error(policy, prompt, mask, out, seen) <= 1e-5


def keep_masked(run: Run) -> None:
    """The wrong loop: it keeps the keys/values of each block's last, still masked, canvas."""
    B = run.policy.block_size
    for number in range(run.blocks):
        rows = run.slots.wake()
        for index in range(B):
            rows = run.step(rows, number * B, index, canvas_logits(run, rows, number * B))
        rows = run.slots.wake()
        run.first[rows] = run.forward(rows, number * B, B, 0, slice(B - 1, B))[:, 0]
        run.tokens, clean = torch.full_like(run.tokens, run.policy.mask_token_id), run.tokens
        run.forward(rows, number * B, B, 0, slice(0, 1))
        run.tokens = clean
        run.cache.advance(B)


@pytest.mark.parametrize("context", CONTEXTS)
def test_claim_17_keys_kept_from_masked_positions_are_caught(
    make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch, context: Context
) -> None:
    policy = make_policy(4, context, end=NEVER)
    prompt, mask = ragged_prompts()
    monkeypatch.setattr(block, "fused", keep_masked)
    with watched(monkeypatch) as seen:
        out = decode_blocks(policy, prompt, mask, settings(tau=2.0, max_new_tokens=12))
    with torch.inference_mode():
        assert worst_error(policy, prompt, mask, out, seen) > 0.1


@pytest.mark.parametrize("context", CONTEXTS)
def test_claim_07_padding_and_batch_mates_change_no_decoded_token(
    make_policy: MakePolicy, context: Context
) -> None:
    policy = make_policy(4, context, torch.float64, end=7)
    prompt, mask = ragged_prompts(6)
    out = decode_blocks(policy, prompt, mask, settings(tau=0.5))
    wider = torch.nn.functional.pad(prompt, (5, 0)), torch.nn.functional.pad(mask, (5, 0))
    assert decode_blocks(policy, *wider, settings(tau=0.5)).tokens == out.tokens
    for n in range(6):
        bare = prompt[n][mask[n]][None]
        alone = decode_blocks(policy, bare, torch.ones_like(bare).bool(), settings(tau=0.5))
        assert alone.tokens == out.tokens[n : n + 1]


def generate(policy: Policy, prompt: Tensor, mask: Tensor, new: int) -> list[list[int]]:
    """Greedy transformers.generate, the mask token suppressed, cut at the end token."""
    options: dict[str, Any] = {"suppress_tokens": [policy.mask_token_id], "pad_token_id": 0}
    options |= {"do_sample": False, "max_new_tokens": new, "eos_token_id": policy.eos_token_id}
    out = policy.model.generate(input_ids=prompt, attention_mask=mask.long(), **options)
    tokens = [row[prompt.shape[1] :].tolist() for row in out]
    end = policy.eos_token_id
    return [row[: row.index(end) + 1] if end in row else row for row in tokens]


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("fused", [True, False])
def test_claim_14_block_size_one_equals_generate(
    make_policy: MakePolicy, context: Context, fused: bool
) -> None:
    prompt, mask = ragged_prompts(8)
    lengths = set()
    for seed in range(3):
        policy = make_policy(1, context, torch.float64, seed, end=7)
        out = decode_blocks(policy, prompt, mask, settings(max_new_tokens=20, fused=fused))
        assert out.tokens == generate(policy, prompt, mask, 20)
        lengths |= set(map(len, out.tokens))
        if fused:  # AR is block diffusion with B = 1: one pass a token, the prefill gives the first
            assert out.nfe == list(map(len, out.tokens))
    assert len(lengths) > 1  # some rows did stop early


@pytest.mark.parametrize("context", CONTEXTS)
def test_claim_15_fused_commit_equals_the_unfused_loop(
    make_policy: MakePolicy, context: Context
) -> None:
    prompt, mask = ragged_prompts(8)
    for end in (NEVER, 7):
        policy = make_policy(4, context, torch.float64, end=end)
        for tau in (2.0, 1.0, 0.9, 0.6, 0.4, 0.2, 0.0):
            for temperature in (0.0, 1.0):
                both = [
                    decode_blocks(policy, prompt, mask, config, seeded(8))
                    for config in (
                        settings(tau=tau, temperature=temperature, fused=True),
                        settings(tau=tau, temperature=temperature, fused=False),
                    )
                ]
                assert both[0].tokens == both[1].tokens
                for one, other in zip(both[0].trajectories, both[1].trajectories, strict=True):
                    assert one.tokens == other.tokens and one.reveal_step == other.reveal_step


@pytest.mark.parametrize(("tau", "unfused", "fused"), [(2.0, 31, 25), (0.0, 13, 7)])
def test_claim_15_forward_passes_match_the_formula(
    make_policy: MakePolicy, tau: float, unfused: int, fused: int
) -> None:
    """6 blocks of 4: 1 prefill, the steps, and without fusion one commit pass a block."""
    policy, passes = make_policy(4, end=NEVER), []
    original = policy.model.base_model.forward

    def counted(*args: Any, **kwargs: Any) -> Any:
        passes.append(1)
        return original(*args, **kwargs)

    policy.model.base_model.forward = counted
    for is_fused, expected in ((False, unfused), (True, fused)):
        passes.clear()
        out = decode_blocks(policy, *ragged_prompts(), settings(tau=tau, fused=is_fused))
        assert out.nfe == [expected] * 3 and len(passes) == expected
        assert out.tpf == pytest.approx(24 / expected)


def test_claim_16_tau_bounds_and_committed_tokens_never_change(
    make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = make_policy(4, end=NEVER)
    for tau, steps in ((1.01, [0, 1, 2, 3]), (1.0, [0, 1, 2, 3]), (0.0, [0] * 4), (-1.0, [0] * 4)):
        out = decode_blocks(policy, *ragged_prompts(), settings(tau=tau))
        for trajectory in out.trajectories:
            for start in range(0, 24, 4):
                assert sorted(trajectory.reveal_step[start : start + 4]) == steps
    with watched(monkeypatch) as seen:
        out = decode_blocks(policy, *ragged_prompts(), settings(tau=0.4))
    for (row, start, step), (canvas, _) in seen.items():
        trajectory = out.trajectories[row]
        assert tuple(canvas.tolist()) == trajectory.canvas(step, MASK)[start : start + 4]


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_claim_18_a_row_in_a_batch_equals_the_row_alone(
    make_policy: MakePolicy, context: Context, temperature: float
) -> None:
    policy = make_policy(4, context, torch.float64, end=7)
    prompt, mask = ragged_prompts(12)
    config = settings(tau=0.4, temperature=temperature)
    out = decode_blocks(policy, prompt, mask, config, seeded(12))
    assert len(set(out.nfe)) > 2  # rows really take different numbers of steps
    for n in range(12):
        one = slice(n, n + 1)
        alone = decode_blocks(policy, prompt[one], mask[one], config, seeded(1, n))
        assert alone.tokens == out.tokens[one] and alone.nfe == out.nfe[one]
        assert alone.trajectories[0].reveal_step == out.trajectories[n].reveal_step
        recorded = out.trajectories[n].log_probability
        assert alone.trajectories[0].log_probability == pytest.approx(recorded, abs=1e-5)


@pytest.mark.parametrize("fused", [True, False])
def test_claim_20_no_mask_token_nothing_after_the_end_no_shared_state(
    make_policy: MakePolicy, fused: bool
) -> None:
    policy = make_policy(4, end=7, seed=1)
    with torch.no_grad():  # make the mask token the favourite everywhere
        head = torch.nn.Linear(32, 40, bias=True)
        head.weight.copy_(policy.model.get_output_embeddings().weight)
        head.bias.copy_(torch.where(torch.arange(40) == MASK, 50.0, 0.0))
        policy.model.set_output_embeddings(head)
    prompt, mask = ragged_prompts(16)
    before = {name: weight.clone() for name, weight in policy.model.state_dict().items()}
    config = settings(tau=0.3, temperature=1.0, fused=fused)
    out = decode_blocks(policy, prompt, mask, config, seeded(16))
    ended = [row for row in out.tokens if 7 in row]
    assert ended and all(MASK not in row for row in out.tokens)
    assert all(row.index(7) == len(row) - 1 for row in ended)
    for trajectory, row in zip(out.trajectories, out.tokens, strict=True):
        assert trajectory.length == len(row) and list(trajectory.tokens[: len(row)]) == row
    decode_blocks(policy, *ragged_prompts(5, seed=9), config, seeded(5))
    assert decode_blocks(policy, prompt, mask, config, seeded(16)) == out
    for name, weight in policy.model.state_dict().items():
        assert torch.equal(weight, before[name])


def test_claim_20_a_row_with_its_end_token_first_fills_all_before_it(
    make_policy: MakePolicy,
) -> None:
    waited = 0
    for seed in range(4):
        policy = make_policy(8, end=7, seed=seed)
        config = settings(tau=2.0, temperature=1.0)
        out = decode_blocks(policy, *ragged_prompts(16), config, seeded(16))
        for trajectory in out.trajectories:
            written = trajectory.tokens[: trajectory.length]
            assert MASK not in written
            if written[-1] == 7:
                steps = trajectory.reveal_step[: trajectory.length]
                last = trajectory.block[trajectory.length - 1] * 8
                waited += max(steps[last:]) > steps[-1]
    assert waited > 3  # the end token did stand before tokens to its left


def test_recording_changes_nothing_and_fills_every_committed_position(
    make_policy: MakePolicy,
) -> None:
    policy = make_policy(4, end=7)
    out = decode_blocks(policy, *ragged_prompts(8), settings(tau=0.4))
    silent = decode_blocks(policy, *ragged_prompts(8), settings(tau=0.4), record=False)
    assert silent.tokens == out.tokens and silent.nfe == out.nfe and silent.trajectories == []
    for trajectory in out.trajectories:
        assert len(trajectory.tokens) % 4 == 0
        for token, step, sure, law in zip(
            trajectory.tokens,
            trajectory.reveal_step,
            trajectory.confidence,
            trajectory.log_probability,
            strict=True,
        ):
            assert (step < 0) == (token == MASK)
            assert step < 0 or (0 < sure <= 1 and law <= 0)


@pytest.mark.parametrize("rule", ["fixed-k", "entropy"])
def test_other_commit_rules_decode_whole_responses(make_policy: MakePolicy, rule: str) -> None:
    policy = make_policy(4, end=NEVER)
    out = decode_blocks(policy, *ragged_prompts(), settings(rule=rule, k=2, tau=0.4))
    assert all(len(row) == 24 for row in out.tokens)
    if rule == "fixed-k":
        assert out.nfe == [13] * 3


def _cases() -> list[tuple[str, Callable[[Policy], object]]]:
    prompt, mask = ragged_prompts()
    return [
        ("one generator", lambda p: decode_blocks(p, prompt, mask, settings(temperature=1.0))),
        ("positions", lambda p: decode_blocks(p, prompt, mask, settings(max_new_tokens=500))),
        ("token table", lambda p: decode_blocks(p, prompt, mask, settings(distinct=True))),
    ]


@pytest.mark.parametrize(("words", "call"), _cases())
def test_requests_that_cannot_be_served_are_refused(
    make_policy: MakePolicy, words: str, call: Callable[[Policy], object]
) -> None:
    with pytest.raises(ModelError, match=words):
        call(make_policy(4))
