"""The autoregressive loop with a cache: the teacher's decoder and the speed baseline."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from diffgr2lib.decode.commit import propose
from diffgr2lib.decode.prepare import Generators, check_room, draw, evaluating, prefill
from diffgr2lib.decode.slots import LEFT, Slots
from diffgr2lib.decode.trajectory import Decoded, Trajectory, cut
from diffgr2lib.model.cache import BlockCache
from diffgr2lib.model.masks import additive
from diffgr2lib.model.policy import Policy

if TYPE_CHECKING:
    from diffgr2lib.config import DecodeConfig


@torch.inference_mode()
def decode_ar(
    policy: Policy,
    prompt: Tensor,
    prompt_mask: Tensor,
    config: "DecodeConfig",
    generators: Generators | None = None,
    record: bool = True,
) -> Decoded:
    """Decode left to right, one token a pass, for each prompt [N, P] (padded left).

    Only `temperature` and `max_new_tokens` of the config are read. Greedy output equals
    ``generate(do_sample=False)`` with the mask token excluded, and `decode_blocks` at B = 1; so
    does sampled output, given the same generators.
    """
    (N, P), W, device = prompt.shape, config.max_new_tokens, policy.device
    check_room(policy, P, W)
    prompt, prompt_mask = prompt.to(device), prompt_mask.to(device).bool()
    uniform = draw(generators, N, W, config.temperature, device)
    tokens = torch.full((N, W), policy.mask_token_id, device=device)
    confidence, log_probability = torch.zeros(2, N, W, device=device)
    nfe = torch.ones(N, dtype=torch.long, device=device)
    lengths = prompt_mask.sum(1, keepdim=True)
    seen = torch.cat([prompt_mask, prompt_mask.new_ones(N, W)], dim=1)
    keys = additive(seen[:, None], policy.dtype)  # [N, 1, 1, P + W]
    cache = BlockCache(policy.model.config, N, P + W, policy.dtype, device)
    slots = Slots(cache)
    with evaluating(policy):
        logits = prefill(policy, prompt, prompt_mask, cache)[:, None]
        rows = slots.rows
        for place in range(W):
            logits[:, :, policy.mask_token_id] = float("-inf")
            here = None if uniform is None else uniform[rows, place : place + 1]
            made = propose(logits, config.temperature, here)
            tokens[rows, place] = made.token[:, 0]
            if record:
                confidence[rows, place] = made.confidence[:, 0].float()
                log_probability[rows, place] = made.log_probability[:, 0].float()
            ended = (made.token[:, 0] == policy.eos_token_id).long() * LEFT
            rows = slots.update(ended.tolist())
            if not len(rows) or place + 1 == W:
                break
            mask = keys[rows, ..., : cache.length + 1]
            written = tokens[rows, place : place + 1]
            logits = policy.forward(written, lengths[rows] + place, mask, cache)
            cache.advance(1)
            nfe[rows] += 1
    whole, passes = tokens.tolist(), nfe.tolist()
    answers = [cut(row, policy.eos_token_id, W) for row in whole]
    kept = []
    if record:
        sure, laws = confidence.tolist(), log_probability.tolist()
        for n, answer in enumerate(answers):
            size, text = len(answer), prompt[n][prompt_mask[n]].tolist()
            kept.append(
                Trajectory(
                    prompt=tuple(text),
                    tokens=tuple(answer),
                    reveal_step=(0,) * size,
                    confidence=tuple(sure[n][:size]),
                    log_probability=tuple(laws[n][:size]),
                    block_size=1,
                    temperature=config.temperature,
                    length=size,
                    nfe=passes[n],
                )
            )
    return Decoded(answers, kept, passes)
