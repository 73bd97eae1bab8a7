"""How the law of trajectories moves along the ladder: when tokens are committed, how surely."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from diffgr2lib.decode.block import decode_blocks
from diffgr2lib.decode.prepare import pad_left
from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.report.figures import PALETTE
from diffgr2lib.report.ladder import SYSTEMS
from diffgr2lib.train.rows import encode_prompt

if TYPE_CHECKING:
    from diffgr2lib.run import Run


def decoded(run: "Run", system: str, users: int = 64) -> list[Trajectory]:
    """Trajectories of the first validation users, at the preset's tau, of the first seed."""
    stages = run.first
    policy = stages.policy(system)
    assert policy.tokenizer is not None
    examples = stages.world.validation[:users]
    prompts = [encode_prompt(policy.tokenizer, stages.grammar, example) for example in examples]
    prompt, mask = pad_left(prompts, policy.pad_token_id)
    return decode_blocks(policy, prompt, mask, run.preset.decode).trajectories


def summary(run: "Run", systems: Sequence[str]) -> pd.DataFrame:
    """Per system: tokens per pass, mean reveal step, share left of an earlier commit, confidence.

    out_of_order: share of tokens committed after some token to their right in their block.
    """
    rows = []
    for system in systems:
        made = decoded(run, system)
        step, sure, late = (
            np.concatenate(parts) for parts in zip(*map(_tokens, made), strict=True)
        )
        rows.append(
            {
                "system": system,
                "users": len(made),
                "tpf": sum(one.length for one in made) / sum(one.nfe for one in made),
                "reveal_step": float(step.mean()),
                "out_of_order": float(late.mean()),
                "confidence": float(sure.mean()),
                "sure_0.99": float((sure > 0.99).mean()),
            }
        )
    return pd.DataFrame(rows)


def _tokens(one: Trajectory) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reveal step, confidence and out-of-order flag of each token up to the end token."""
    step = np.array(one.reveal_step)
    whole = np.where(step < 0, np.iinfo(int).max, step).reshape(-1, one.block_size)
    # the earliest commit to the right, within the block
    right = np.minimum.accumulate(whole[:, ::-1], axis=1)[:, ::-1]
    right = np.concatenate([right[:, 1:], np.full((len(right), 1), np.iinfo(int).max)], axis=1)
    late = (whole > right).ravel()
    n = one.length
    return step[:n], np.array(one.confidence)[:n], late[:n]


def plot(run: "Run", systems: Sequence[str]) -> Figure:
    """Commits by step, their confidence, and tokens per pass, one line a system."""
    fig, axes = plt.subplots(1, 3, figsize=(9.3, 2.9), layout="constrained")
    for system, color in zip(systems, PALETTE, strict=False):
        made = decoded(run, system)
        step, sure, _ = (np.concatenate(parts) for parts in zip(*map(_tokens, made), strict=True))
        shares = np.bincount(step, minlength=run.preset.diffusion.block_size) / len(step)
        label = SYSTEMS[system]
        axes[0].plot(np.arange(len(shares)), shares.cumsum(), "o-", ms=3, color=color, label=label)
        doubt = np.sort(1 - sure)[::-1]
        axes[1].plot(doubt, np.linspace(0, 1, len(doubt)), color=color)
        rates = [one.length / one.nfe for one in made]
        axes[2].plot(np.sort(rates), np.linspace(0, 1, len(rates)), color=color)
    axes[0].set(xlabel="denoising step of the block", ylabel="share of tokens committed")
    axes[1].set(xlabel="1 - confidence at commit", ylabel="share of tokens at least so unsure")
    axes[1].set(xscale="log", yscale="log", xlim=(1e-4, 1))
    axes[2].set(xlabel="tokens per forward pass", ylabel="share of users")
    fig.legend(loc="outside lower center", ncols=len(systems), frameon=False)
    return fig
