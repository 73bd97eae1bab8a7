"""Claims 4, 5, 6 and the logits' half of 7."""

import pytest
import torch
from torch import Tensor

from diffgr2lib.errors import ModelError
from diffgr2lib.model.columns import (
    Columns,
    autoregressive_columns,
    build_columns,
    supervising_columns,
)
from diffgr2lib.model.masks import CONTEXTS, Context
from diffgr2lib.model.policy import Policy
from diffgr2lib.train.corruption import complementary_masks, corrupt
from tests.tiny import MakePolicy, ragged_prompts, ragged_responses


def logits_of(policy: Policy, columns: Columns) -> Tensor:
    return policy.forward(columns.input_ids, columns.position_ids, columns.attention).detach()


def test_claim_04_causal_clean_columns_equal_a_plain_causal_forward(
    make_policy: MakePolicy,
) -> None:
    policy = make_policy()
    prompt, prompt_mask = ragged_prompts()
    response, response_mask = ragged_responses()
    noisy = torch.full_like(response, policy.mask_token_id)[:, None]
    columns = build_columns(prompt, prompt_mask, response, response_mask, noisy, 4, "causal")
    logits = logits_of(policy, columns)
    for n in range(3):
        prompt_ids, response_ids = prompt[n][prompt_mask[n]], response[n][response_mask[n]]
        plain = policy.model(torch.cat([prompt_ids, response_ids])[None]).logits[0]
        scored = logits[n, columns.clean_from[: len(response_ids)]]
        expected = plain[len(prompt_ids) - 1 : -1]
        torch.testing.assert_close(scored, expected, atol=1e-5, rtol=0)


def test_no_noisy_copy_gives_the_plain_training_columns(make_policy: MakePolicy) -> None:
    policy = make_policy()
    texts = *ragged_prompts(), *ragged_responses()
    without = logits_of(policy, build_columns(*texts, None, 4, "causal"))
    copies = texts[2][:, None].expand(-1, 2, -1)
    beside = logits_of(policy, build_columns(*texts, copies, 4, "causal"))
    torch.testing.assert_close(without, beside[:, : without.shape[1]], atol=1e-5, rtol=0)


@pytest.mark.parametrize("context", CONTEXTS)
def test_claim_05_no_token_reaches_the_logits_that_score_it(
    make_policy: MakePolicy, context: Context
) -> None:
    policy = make_policy()
    L, generator = 6, torch.Generator().manual_seed(0)
    prompt, prompt_mask = ragged_prompts(1, 3)
    response = torch.randint(2, 39, (1, L), generator=generator)
    real = torch.ones(1, L, dtype=torch.bool)
    for B in (1, 2, 3, 4, 6):
        masks = complementary_masks(real, B, generator)
        noisy = corrupt(response, masks, policy.mask_token_id)

        def scored(clean: Tensor, noisy: Tensor, B: int = B) -> tuple[Tensor, Tensor]:
            columns = build_columns(prompt, prompt_mask, clean, real, noisy, B, context)
            logits = logits_of(policy, columns)[0]
            return logits[columns.clean_from], logits[columns.noisy_from]  # [L, V], [C, L, V]

        clean_before, noisy_before = scored(response, noisy)
        for j in range(L):
            start = j // B * B
            other = response.clone()
            other[0, j] = 2 + (other[0, j] - 1) % 36
            changed = corrupt(other, masks, policy.mask_token_id)
            clean_after, noisy_after = scored(other, changed)
            for c in range(2):
                untouched = noisy_before[c, :start], noisy_after[c, :start]
                torch.testing.assert_close(*untouched, atol=1e-5, rtol=0)
                if masks[0, c, j]:  # a masked token moves nothing in its own block either
                    stop = start + B
                    same = noisy_before[c, start:stop], noisy_after[c, start:stop]
                    torch.testing.assert_close(*same, atol=1e-5, rtol=0)
            if context == "causal":
                same = clean_before[: j + 1], clean_after[: j + 1]
                torch.testing.assert_close(*same, atol=1e-5, rtol=0)
            if j + B < L:  # the probe is alive: later blocks do read the token
                assert (
                    noisy_after[:, start + B :] - noisy_before[:, start + B :]
                ).abs().max() > 1e-3


def test_clean_columns_leak_inside_a_block_under_block_context(make_policy: MakePolicy) -> None:
    policy = make_policy()
    texts = *ragged_prompts(1), *ragged_responses(1)
    columns = build_columns(*texts, None, 4, "block")
    before = logits_of(policy, columns)[0, columns.clean_from[1]]
    columns.input_ids[0, 7 + 1] = 20
    assert (logits_of(policy, columns)[0, columns.clean_from[1]] - before).abs().max() > 1e-3


def test_claim_06_ar_loss_with_block_context_is_refused_and_says_why() -> None:
    texts = *ragged_prompts(), *ragged_responses()
    with pytest.raises(ModelError, match="has seen that token"):
        autoregressive_columns(build_columns(*texts, None, 4, "block"))
    for context, block_size in (("causal", 4), ("block", 1)):
        columns = build_columns(*texts, None, block_size, context)  # type: ignore[arg-type]
        assert torch.equal(autoregressive_columns(columns), columns.clean_from)


@pytest.mark.parametrize("context", CONTEXTS)
def test_claim_07_padding_and_batch_mates_change_no_logit(
    make_policy: MakePolicy, context: Context
) -> None:
    policy = make_policy(context=context)
    prompt, prompt_mask = ragged_prompts()
    response, response_mask = ragged_responses()
    masks = complementary_masks(response_mask, 3, torch.Generator().manual_seed(0))
    noisy = corrupt(response, masks, policy.mask_token_id)
    batch = build_columns(prompt, prompt_mask, response, response_mask, noisy, 3, context)
    together = logits_of(policy, batch)
    for n in range(3):
        P, L = int(prompt_mask[n].sum()), int(response_mask[n].sum())
        alone = build_columns(
            prompt[n : n + 1, -P:],
            prompt_mask[n : n + 1, -P:],
            response[n : n + 1, :L],
            response_mask[n : n + 1, :L],
            noisy[n : n + 1, :, :L],
            3,
            context,
        )
        single = logits_of(policy, alone)
        torch.testing.assert_close(
            together[n, batch.noisy_from[:, :L]], single[0, alone.noisy_from], atol=1e-5, rtol=0
        )


def test_supervising_columns_pick_the_copy_that_masks_the_token() -> None:
    texts = *ragged_prompts(), *ragged_responses()
    masks = complementary_masks(texts[3], 4, torch.Generator().manual_seed(3))
    columns = build_columns(*texts, corrupt(texts[2], masks, 39), 4, "block")
    chosen = supervising_columns(columns, masks)
    for n in range(3):
        for j in range(8):
            if texts[3][n, j]:
                c = masks[n, :, j].nonzero().item()
                assert chosen[n, j] == columns.noisy_from[c, j]
            if j % 4 == 0:
                assert chosen[n, j] == 7 + j - 1  # a block starts from the clean column before it


def test_right_padded_or_empty_prompts_are_refused() -> None:
    prompt, prompt_mask = ragged_prompts()
    with pytest.raises(ModelError, match="on the left"):
        build_columns(prompt, prompt_mask.flip(1), *ragged_responses(), None, 4, "causal")
    with pytest.raises(ModelError, match="at least one"):
        build_columns(prompt[:, :0], prompt_mask[:, :0], *ragged_responses(), None, 4, "causal")
