"""One policy for teacher and student: a causal LM, its tokenizer, a block size and a context."""

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from diffgr2lib.errors import ModelError
from diffgr2lib.model.cache import BlockCache, cache_argument
from diffgr2lib.model.initialise import look_back
from diffgr2lib.model.masks import Context, check_context

ColumnIndex = slice | Tensor | None


@dataclass(frozen=True, slots=True)
class Policy:
    """A causal LM read with block size B and a context; AR is B = 1.

    model: any AutoModelForCausalLM with full attention in every layer and an untransformed output
    head (Qwen3, Qwen2.5, Llama, SmolLM2). tokenizer may be None where no text is involved.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast | None
    block_size: int
    context: Context
    mask_token_id: int
    eos_token_id: int
    pad_token_id: int

    def __post_init__(self) -> None:
        """Refuse what the mask token, the context or the model cannot serve."""
        check_context(self.context, self.block_size)
        if self.mask_token_id in (self.eos_token_id, self.pad_token_id):
            raise ModelError(
                f"The mask token has id {self.mask_token_id}, which is also the end or padding"
                " token; give the mask a token of its own."
            )
        check_model(self.model)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights, and of the additive masks."""
        return self.model.dtype

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        attention: Any,
        cache: BlockCache | None = None,
        columns: ColumnIndex = None,
    ) -> Tensor:
        """Logits at the asked columns only; see `Scorer.forward`."""
        return score(self.model, input_ids, position_ids, attention, cache, columns)


class Scorer(nn.Module):
    """`score` as a module, for wrappers that hook a module's forward (DDP, accelerate)."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, position_ids: Tensor, attention: Any, columns: ColumnIndex = None
    ) -> Tensor:
        """`score` without a cache."""
        return score(self.model, input_ids, position_ids, attention, None, columns)


def score(
    model: PreTrainedModel,
    input_ids: Tensor,
    position_ids: Tensor,
    attention: Any,
    cache: BlockCache | None = None,
    columns: ColumnIndex = None,
) -> Tensor:
    """Logits of input_ids [N, Q] at `columns`; hidden states are gathered before the output head.

    attention: additive float [N, 1, Q, K] (0 or -inf), or a flex_attention block mask.
    columns: None for all, a slice or long [M] shared by the rows ([N, M, V]), long [N, M] of each
    row's own ([N, M, V]), or bool [N, Q] ([number of True, V]).
    Raises `ModelError` on a boolean mask: eager attention would add it to the scores as 0 or 1.
    """
    if isinstance(attention, Tensor) and not attention.is_floating_point():
        raise ModelError(
            f"The attention mask has dtype {attention.dtype}; pass an additive float mask (0 where"
            " visible, -inf where not; diffgr2lib.model.masks.additive makes one). Eager attention"
            " would add a boolean mask to the scores and be silently wrong."
        )
    body = model.base_model
    extra: dict[str, Any] = {cache_argument(type(body).forward): cache} if cache is not None else {}
    hidden = body(
        input_ids=input_ids,
        attention_mask=attention,
        position_ids=position_ids,
        use_cache=False,
        **extra,
    ).last_hidden_state  # [N, Q, D]
    return model.get_output_embeddings()(_pick(hidden, columns))


def _pick(hidden: Tensor, columns: ColumnIndex) -> Tensor:
    if columns is None:
        return hidden
    if isinstance(columns, slice):
        return hidden[:, columns]
    if columns.dtype == torch.bool:
        return hidden[columns]
    if columns.ndim == 1:
        return hidden.index_select(1, columns)
    return hidden.gather(1, columns[:, :, None].expand(-1, -1, hidden.shape[2]))


def check_model(model: PreTrainedModel) -> None:
    """Raise `ModelError` for what additive masks or the bare head would get silently wrong."""
    config: Any = model.config
    used = config._attn_implementation
    if used not in ("sdpa", "flex_attention"):
        raise ModelError(
            f"The model uses {used!r} attention; load it with attn_implementation='sdpa' (or"
            " 'flex_attention' on a GPU): the others may ignore or misread a block mask."
        )
    layers = getattr(config, "layer_types", None) or []
    if any(layer != "full_attention" for layer in layers):
        raise ModelError(
            "The model has sliding-window or linear layers; use one with full attention."
        )
    for name in ("final_logit_softcapping", "logit_scale", "logits_scaling"):
        if getattr(config, name, None):
            raise ModelError(f"The model rescales its logits ({name}), which this kit does not do.")


def build_policy(
    tokenizer: PreTrainedTokenizerFast,
    hidden: int,
    layers: int,
    heads: int,
    intermediate: int,
    max_positions: int,
    seed: int,
    block_size: int = 1,
    context: Context = "causal",
    rope_theta: float = 1e3,
) -> Policy:
    """A Qwen3 model from scratch, float32, output head tied to the embeddings.

    The tokenizer must name a mask, an end and a padding token. The global random state is
    untouched.
    """
    model = build_model(
        len(tokenizer), hidden, layers, heads, intermediate, max_positions, seed, rope_theta
    )
    ids = {name: getattr(tokenizer, f"{name}_token_id") for name in ("mask", "eos", "pad")}
    missing = [name for name, value in ids.items() if value is None]
    if missing:
        raise ModelError(
            f"The tokenizer names no {' and no '.join(missing)} token; set them on it."
        )
    return Policy(model, tokenizer, block_size, context, ids["mask"], ids["eos"], ids["pad"])


def build_model(
    vocabulary: int,
    hidden: int,
    layers: int,
    heads: int,
    intermediate: int,
    max_positions: int,
    seed: int,
    rope_theta: float = 1e3,
) -> Qwen3ForCausalLM:
    """The bare Qwen3 model of `build_policy`, on the CPU in evaluation mode."""
    if hidden % heads or (hidden // heads) % 2:
        raise ModelError(f"hidden is {hidden}; it must be an even multiple of heads ({heads}).")
    settings: dict[str, Any] = dict(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=hidden // heads,
        intermediate_size=intermediate,
        max_position_embeddings=max_positions,
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta},
        tie_word_embeddings=True,
        attention_bias=True,
        attn_implementation="sdpa",
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    config = Qwen3Config(**settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    look_back(model, min(heads, 4))
    return model.eval()


def convert(policy: Policy, block_size: int, context: Context) -> Policy:
    """The same weights, copied one to one, read with another block size and context.

    "Diffusion-GR2" (arXiv 2607.01170), section 3: only the reading changes, no weight is added.
    """
    return replace(
        policy, model=copy.deepcopy(policy.model), block_size=block_size, context=context
    )
