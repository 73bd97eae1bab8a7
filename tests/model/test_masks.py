"""Claims 1, 2, 8 and 9."""

import pytest
import torch

from diffgr2lib.errors import ModelError
from diffgr2lib.model.columns import build_columns
from diffgr2lib.model.masks import CONTEXTS, Context, additive, flex_mask, visible, visible_loop
from diffgr2lib.model.policy import Policy, build_model
from tests.tiny import MakePolicy, checkpoint_layers, ragged_prompts, ragged_responses


@pytest.mark.parametrize("context", CONTEXTS)
def test_claim_01_additive_mask_equals_loop_reference(context: Context) -> None:
    prompt_mask = ragged_prompts(3, 4)[1]
    for L in (1, 2, 5, 6):
        response_mask = ragged_responses(3, L)[1]
        for block_size in range(1, L + 1):
            for copies in (0, 1, 2):
                arguments = (copies, block_size, context)
                seen = visible(prompt_mask, response_mask, *arguments)
                added = additive(seen, torch.float32)
                assert added.shape == (3, 1, *seen.shape[1:]) and added.is_floating_point()
                for n in range(3):
                    loop = visible_loop(prompt_mask[n], response_mask[n], *arguments)
                    assert torch.equal(added[n, 0] == 0, loop)
                    assert torch.equal(added[n, 0].isneginf(), ~loop)


def test_block_size_one_is_the_causal_mask_in_both_contexts() -> None:
    masks = ragged_prompts(2, 3)[1], ragged_responses(2, 5)[1]
    assert torch.equal(visible(*masks, 1, 1, "block"), visible(*masks, 1, 1, "causal"))


def test_unknown_context_and_block_size_zero_are_refused() -> None:
    masks = ragged_prompts()[1], ragged_responses()[1]
    with pytest.raises(ModelError, match="block, causal"):
        visible(*masks, 1, 4, "both")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="block_size is 0"):
        visible(*masks, 1, 0, "block")


def test_claim_02_boolean_mask_is_refused(make_policy: MakePolicy) -> None:
    policy = make_policy()
    ids, places = torch.randint(2, 39, (2, 6)), torch.arange(6).expand(2, 6)
    seen = torch.ones(6, 6, dtype=torch.bool).tril().expand(2, 6, 6)
    with pytest.raises(ModelError, match="additive float"):
        policy.forward(ids, places, seen[:, None])
    right = policy.forward(ids, places, additive(seen, torch.float32))

    model = build_model(40, 32, 2, 4, 64, 128, 0)
    model.load_state_dict(policy.model.state_dict())
    model.set_attn_implementation("eager")
    wrong = model(input_ids=ids, position_ids=places, attention_mask=seen[:, None]).logits
    assert (wrong - right).abs().max() > 0.1  # what silently happens without the refusal
    with pytest.raises(ModelError, match="eager"):
        Policy(model, None, 4, "causal", 39, 1, 0)


@pytest.mark.parametrize("context", CONTEXTS)
def test_claim_08_gradients_agree_with_and_without_checkpointing(
    make_policy: MakePolicy, context: Context
) -> None:
    policy = make_policy(context=context)
    response, response_mask = ragged_responses()
    noisy = response[:, None].clone()
    noisy[:, :, ::2] = policy.mask_token_id
    columns = build_columns(*ragged_prompts(), response, response_mask, noisy, 4, context)
    kept = columns.attention.clone()
    gradients = []
    for checkpointing in (False, True):
        policy.model.train()
        policy.model.zero_grad()
        if checkpointing:
            checkpoint_layers(policy)
            assert (
                policy.model.model.gradient_checkpointing
                or policy.model.model.layers[0].gradient_checkpointing
            )
        logits = policy.forward(columns.input_ids, columns.position_ids, columns.attention)
        logits.log_softmax(-1)[..., 5].mean().backward()
        gradients.append(torch.cat([w.grad.flatten() for w in policy.model.parameters()]))
        assert torch.equal(columns.attention, kept)
    assert gradients[0].abs().max() > 1e-3
    torch.testing.assert_close(gradients[0], gradients[1])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="flex_attention is used on a GPU only")
@pytest.mark.parametrize("context", CONTEXTS)
def test_claim_09_flex_attention_equals_sdpa(make_policy: MakePolicy, context: Context) -> None:
    policy = make_policy(context=context)
    policy.model.cuda()
    prompt, prompt_mask = (x.cuda() for x in ragged_prompts())
    response, response_mask = (x.cuda() for x in ragged_responses())
    columns = build_columns(
        prompt, prompt_mask, response, response_mask, response[:, None], 4, context
    )
    arguments = columns.input_ids, columns.position_ids
    sdpa = policy.forward(*arguments, columns.attention)
    policy.model.set_attn_implementation("flex_attention")
    flex = policy.forward(*arguments, flex_mask(prompt_mask, response_mask, 1, 4, context))
    real = torch.cat([prompt_mask, response_mask, response_mask], dim=1)
    torch.testing.assert_close(flex[real], sdpa[real], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("context", CONTEXTS)
def test_flex_mask_marks_the_same_pairs(context: Context) -> None:
    masks = ragged_prompts()[1], ragged_responses()[1]
    block_mask = flex_mask(*masks, 2, 3, context)
    S = 7 + 3 * 8
    n, q, k = torch.meshgrid(torch.arange(3), torch.arange(S), torch.arange(S), indexing="ij")
    seen = block_mask.mask_mod(n, torch.tensor(0), q, k)
    assert torch.equal(seen, visible(*masks, 2, 3, context))
