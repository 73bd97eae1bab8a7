"""Claim 21: lossless decoding equals AR, by tokens and in law; and it equals a slow reference."""

from itertools import product
from pathlib import Path

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from diffgr2lib.artifacts import Store
from diffgr2lib.config import DecodeConfig
from diffgr2lib.decode import decode_ar, decode_blocks
from diffgr2lib.decode.prepare import pad_left
from diffgr2lib.errors import ConfigError, ModelError
from diffgr2lib.model.masks import additive
from diffgr2lib.model.policy import Policy
from diffgr2lib.presets import PRESETS
from diffgr2lib.stages import Stages
from diffgr2lib.train.rows import encode_prompt
from tests.tiny import MASK, NEVER, MakePolicy, make_tiny, ragged_prompts, seeded, settings


def lossless(**changes: object) -> DecodeConfig:
    return settings(speculative=True, **changes)


def whole_forward(policy: Policy, clean: list[int], canvas: int) -> Tensor:
    """Logits of ``[clean | canvas masks]`` without a cache, the mask built cell by cell."""
    C, S = len(clean), len(clean) + canvas
    seen = torch.tensor([[k <= q or q >= C for k in range(S)] for q in range(S)])
    ids = torch.tensor([clean + [policy.mask_token_id] * canvas])
    logits = policy.forward(ids, torch.arange(S)[None], additive(seen[None], policy.dtype))[0]
    logits[:, policy.mask_token_id] = float("-inf")
    return logits


@torch.inference_mode()
def reference(policy: Policy, prompt: list[int], config: DecodeConfig) -> tuple[list[int], int]:
    """Greedy: one row, no cache; drafting and verifying take passes of their own. Tokens, cycles."""
    B, start, cycles = policy.block_size, len(prompt), 0
    text, guess = list(prompt), []  # text is certain, guess is not
    while True:
        cycles += 1
        plain = whole_forward(policy, text + guess, 0)
        noisy = whole_forward(policy, text + guess, B)
        columns = torch.cat([plain[len(text) - 1 :], noisy[len(text + guess) : -1]])
        made, sure = columns.argmax(-1).tolist(), columns.softmax(-1).amax(-1).tolist()
        agreed = 0
        while agreed < len(guess) and guess[agreed] == made[agreed]:
            agreed += 1
        for token in made[: agreed + 1]:
            text.append(token)
            if token == policy.eos_token_id or len(text) - start == config.max_new_tokens:
                return text[start:], cycles
        if agreed < len(guess):  # the rest of the guess, as the columns now have it
            guess = made[agreed + 1 : len(guess)]
            continue
        guess = []
        for token, confidence in zip(made[agreed + 1 :], sure[agreed + 1 :], strict=True):
            if confidence <= config.draft_tau or len(guess) == B - 1:
                break
            guess.append(token)


@pytest.mark.parametrize("tau", [0.0, 0.3, 1.0])
def test_the_fast_loop_equals_the_reference(make_policy: MakePolicy, tau: float) -> None:
    prompt, mask = ragged_prompts(8)
    for end, block_size in product((7, NEVER), (1, 4)):
        policy = make_policy(block_size, dtype=torch.float64, end=end)
        out = decode_blocks(policy, prompt, mask, lossless(draft_tau=tau))
        for n in range(8):
            tokens, cycles = reference(policy, prompt[n][mask[n]].tolist(), lossless(draft_tau=tau))
            assert out.tokens[n] == tokens and out.nfe[n] == cycles


@pytest.mark.parametrize("tau", [0.0, 0.5])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_claim_21_speculative_equals_ar_on_every_prompt(
    make_policy: MakePolicy, tau: float, temperature: float
) -> None:
    policy, fewer = make_policy(4, dtype=torch.float64, end=7), 0
    for batch in range(4):
        prompts, generators = ragged_prompts(56, seed=batch), [seeded(56, batch) for _ in "ab"]
        config = lossless(draft_tau=tau, temperature=temperature)
        ar = decode_ar(policy, *prompts, config, generators[0])
        out = decode_blocks(policy, *prompts, config, generators[1])
        assert out.tokens == ar.tokens
        fewer += sum(ar.nfe) - sum(out.nfe)
        for one, other in zip(out.trajectories, ar.trajectories, strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)
            assert one.confidence == pytest.approx(other.confidence, abs=1e-5)
            assert one.block_size == 1 and one.length == other.length
    assert fewer > 0


def test_claim_21_speculative_equals_ar_on_the_trained_smoke_model(tmp_path: Path) -> None:
    """Real prompts, weights that three stages have trained, greedy and sampled."""
    stages = Stages(PRESETS["smoke"], Store(tmp_path))
    policy, grammar = stages.policy("cft_causal"), stages.grammar
    assert policy.tokenizer is not None
    examples = [*stages.world.train, *stages.world.test][:200]
    assert len(examples) == 200
    prompts = [encode_prompt(policy.tokenizer, grammar, example) for example in examples]
    prompt, mask = pad_left(prompts, policy.pad_token_id)
    for temperature in (0.0, 1.0):
        config = lossless(temperature=temperature, max_new_tokens=40)
        ar = decode_ar(policy, prompt, mask, config, seeded(200))
        out = decode_blocks(policy, prompt, mask, config, seeded(200))
        assert out.tokens == ar.tokens and sum(out.nfe) < sum(ar.nfe)


def test_claim_21_sampled_marginals_match_the_ar_law() -> None:
    """A vocabulary of 6: the laws of the first token and of the first two are enumerated."""
    V, rows = 6, 4000
    policy = make_tiny(4, vocabulary=V, end=NEVER)
    with torch.no_grad():
        policy.model.get_output_embeddings().weight.mul_(0.4)  # every token gets a share
    prompt = torch.tensor([[2, 3, 4]])
    logits = torch.stack(
        [whole_forward(policy, [2, 3, 4, int(first)], 0)[-2:] for first in range(V)]
    ).double()
    laws = logits.softmax(-1).detach()  # [first, of first and second, V]
    first, second = laws[0, 0, : V - 1], laws[: V - 1, 1, : V - 1]
    joint = (first[:, None] * second).flatten()
    drawn = decode_blocks(
        policy, prompt.expand(rows, -1), torch.ones(rows, 3).bool(),
        lossless(temperature=1.0, max_new_tokens=5), seeded(rows, 77), record=False,
    )  # fmt: skip
    tokens = torch.tensor(drawn.tokens)
    ones = tokens[:, 0].bincount(minlength=V - 1)
    twos = (tokens[:, 0] * (V - 1) + tokens[:, 1]).bincount(minlength=(V - 1) ** 2)
    for counts, law in ((ones, first), (twos, joint)):
        expected = law / law.sum() * rows
        assert expected.min() > 5
        assert chisquare(counts.numpy(), expected.numpy()).pvalue > 0.001
    assert min(drawn.nfe) < max(drawn.nfe)  # some drafts stood, some fell


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_claim_18_speculative_rows_do_not_influence_one_another(
    make_policy: MakePolicy, temperature: float
) -> None:
    policy = make_policy(4, dtype=torch.float64, end=7)
    prompt, mask = ragged_prompts(12)
    config = lossless(draft_tau=0.2, temperature=temperature)
    out = decode_blocks(policy, prompt, mask, config, seeded(12))
    assert len(set(out.nfe)) > 2  # rows really advance by different amounts
    for n in range(12):
        one = slice(n, n + 1)
        alone = decode_blocks(policy, prompt[one], mask[one], config, seeded(1, n))
        assert alone.tokens == out.tokens[one] and alone.nfe == out.nfe[one]


def test_speculative_emits_no_mask_and_nothing_after_the_end(make_policy: MakePolicy) -> None:
    policy = make_policy(4, end=7, seed=1)
    prompts, config = ragged_prompts(16), lossless(temperature=1.0)
    out = decode_blocks(policy, *prompts, config, seeded(16))
    assert any(7 in row for row in out.tokens)
    for row in out.tokens:
        assert MASK not in row and row.index(7) == len(row) - 1 if 7 in row else len(row) == 24
    assert decode_blocks(policy, *prompts, config, seeded(16)) == out


def test_speculative_requests_that_cannot_be_served_are_refused(make_policy: MakePolicy) -> None:
    with pytest.raises(ModelError, match="causal"):
        decode_blocks(make_policy(4, "block"), *ragged_prompts(), lossless())
    with pytest.raises(ModelError, match="Pad prompts"):
        prompt, mask = ragged_prompts()
        decode_blocks(make_policy(4), prompt, mask.flip(1), lossless())
    with pytest.raises(ConfigError, match="alone"):
        lossless(distinct=True)
