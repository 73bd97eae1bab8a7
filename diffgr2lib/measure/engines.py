"""The decoders that are timed against one another: same weights, prompts, dtype and stop rule."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from diffgr2lib.decode.ar import decode_ar
from diffgr2lib.decode.block import decode_blocks
from diffgr2lib.decode.trajectory import Decoded, cut
from diffgr2lib.model.policy import Policy

if TYPE_CHECKING:
    from diffgr2lib.config import DecodeConfig

Decode = Callable[[Tensor, Tensor, "DecodeConfig"], Decoded]


@dataclass(frozen=True, slots=True)
class Engine:
    """A way to decode: prompts [N, P] (padded left), their mask and a config in, tokens out.

    first: response tokens until it hands over its first ones, for the time to the first token (AR
    hands over one, block decoding a whole block).
    """

    name: str
    decode: Decode
    config: "DecodeConfig"
    first: int = 1

    def __call__(self, prompt: Tensor, mask: Tensor) -> Decoded:
        """Decode to the end tokens."""
        return self.decode(prompt, mask, self.config)

    def begin(self, prompt: Tensor, mask: Tensor) -> Decoded:
        """Decode until the first tokens are handed over."""
        return self.decode(prompt, mask, replace(self.config, max_new_tokens=self.first))


def ar_engine(policy: Policy, config: "DecodeConfig", name: str = "ar") -> Engine:
    """Our AR loop over the preallocated cache."""
    return Engine(
        name, lambda prompt, mask, c: decode_ar(policy, prompt, mask, c, record=False), config
    )


def block_engine(policy: Policy, config: "DecodeConfig", name: str) -> Engine:
    """Block decoding, or lossless decoding where the config says `speculative`."""
    return Engine(
        name,
        lambda prompt, mask, c: decode_blocks(policy, prompt, mask, c, record=False),
        config,
        1 if config.speculative else policy.block_size,
    )


def generate_engine(policy: Policy, config: "DecodeConfig", name: str = "generate") -> Engine:
    """`generate` of transformers with its dynamic cache: what a user gets without any kit."""

    def decode(prompt: Tensor, mask: Tensor, config: "DecodeConfig") -> Decoded:
        options: dict[str, Any] = {
            "do_sample": False,
            "max_new_tokens": config.max_new_tokens,
            "eos_token_id": policy.eos_token_id,
            "pad_token_id": policy.pad_token_id,
            "suppress_tokens": [policy.mask_token_id],
        }
        prompt, mask = prompt.to(policy.device), mask.to(policy.device).long()
        model: Any = policy.model
        with torch.inference_mode():
            out = model.generate(input_ids=prompt, attention_mask=mask, **options)
        rows = out[:, prompt.shape[1] :].tolist()
        tokens = [cut(row, policy.eos_token_id, config.max_new_tokens) for row in rows]
        return Decoded(tokens, [], [len(row) for row in tokens])

    return Engine(name, decode, config)


def forced(policy: Policy) -> Policy:
    """The policy with an end token that never comes, for outputs of a forced length."""
    return replace(policy, eos_token_id=-1)
