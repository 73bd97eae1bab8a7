"""Figure 6: the speed-up against output and prompt length, with both forced.

A model with random weights and enough positions, an end token that never comes, and `fixed-k`
commits at the rate that the trained model reaches: what is measured is what passes cost at a
length, not how well a model of that length would draft.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from diffgr2lib.config import DecodeConfig
from diffgr2lib.measure.engines import ar_engine, block_engine, forced
from diffgr2lib.measure.plan import Plan
from diffgr2lib.measure.throughput import measure, speedup
from diffgr2lib.model.policy import Policy, build_model


def stretched(policy: Policy, positions: int) -> Policy:
    """A policy of the same sizes with random weights and room for `positions`; it never ends."""
    config = policy.model.config
    model = build_model(
        config.vocab_size,
        config.hidden_size,
        config.num_hidden_layers,
        config.num_attention_heads,
        config.intermediate_size,
        positions,
        seed=0,
    )
    torch.nn.Module.to(model, policy.device, policy.dtype)
    return forced(replace(policy, model=model))


def length_table(policy: Policy, plan: Plan, tpf: Sequence[float]) -> pd.DataFrame:
    """Speed-up over our AR loop at batch 1: axis (output, prompt), prompt, output, tpf, speedup.

    tpf: tokens per pass to force, each rounded to a rate at which whole steps fill a block.
    """
    room = max(*plan.prompts, plan.prompt) + max(*plan.outputs, plan.output) + policy.block_size
    long = stretched(policy, room)
    rates = sorted({fit_rate(rate, policy.block_size) for rate in tpf})
    points = [("output", plan.prompt, output) for output in plan.outputs]
    points += [("prompt", prompt, plan.output) for prompt in plan.prompts]
    rows = []
    for axis, prompt, output in points:
        base = DecodeConfig(max_new_tokens=output)
        engines = [ar_engine(replace(long, block_size=1), base)]
        for k in rates:
            config = replace(base, rule="fixed-k", k=k)
            engines.append(block_engine(long, config, f"{k} tokens a pass"))
        ids = (
            np.random.default_rng(0).integers(policy.model.config.vocab_size, size=prompt).tolist()
        )
        slow, *fast = measure(engines, [ids], 1, policy.pad_token_id, plan.repeats)
        for k, timing in zip(rates, fast, strict=True):
            gain = speedup(timing, slow)
            rows.append(
                {
                    "axis": axis, "prompt": prompt, "output": output, "forced_tpf": k,
                    "tpf": timing.tpf, "speedup": gain.value, "speedup_low": gain.low,
                    "speedup_high": gain.high,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def fit_rate(tpf: float, block_size: int) -> int:
    """The commits a step whose tokens per pass over a block come nearest to `tpf`."""
    return min(
        range(1, block_size + 1), key=lambda k: (abs(block_size / -(-block_size // k) - tpf), k)
    )
