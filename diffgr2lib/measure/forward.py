"""What one forward pass costs, by its width: the price that tokens per pass must repay."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import PreTrainedModel

from diffgr2lib.errors import ModelError
from diffgr2lib.measure.throughput import clock, median_estimate
from diffgr2lib.model.cache import BlockCache
from diffgr2lib.model.gguf import read_gguf, smollm_file
from diffgr2lib.model.policy import score

log = logging.getLogger(__name__)

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


def load_smollm(device: str = "cpu") -> PreTrainedModel | None:
    """SmolLM2-135M-Instruct in float32; None, with a log line, where it cannot be read."""
    try:
        file = smollm_file()
    except ModelError as error:
        log.info("SmolLM2 is not measured: %s", error)
        return None
    model, _ = read_gguf(file)
    torch.nn.Module.to(model, device)
    return model
