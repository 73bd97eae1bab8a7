"""What the model thought of: a trajectory's canvases scored again, position by position."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from diffgr2lib.decode.prepare import evaluating
from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.errors import ModelError
from diffgr2lib.model.policy import Policy
from diffgr2lib.onpolicy.replay import every_step, lay_out, states

COLUMNS = 4096  # columns of one forward pass: bounds the memory, not the result
LOGITS = 2**26  # logits held at once, likewise


@dataclass(frozen=True, slots=True)
class Alternatives:
    """One trajectory, scored again.

    confidence: float [C, L], top-1 plain softmax of every position that was masked at step c of its
    block, nan elsewhere. top: for each position the likeliest (token id, probability), best first,
    on the canvas that committed it; empty where nothing was committed.
    """

    confidence: np.ndarray
    top: tuple[tuple[tuple[int, float], ...], ...]


def alternatives(policy: Policy, trajectory: Trajectory, count: int = 5) -> Alternatives:
    """Replay a trajectory through the policy that decoded it, and keep its best guesses.

    Exact: each step's canvas is rebuilt, so the top-1 probability at a commit is the recorded
    confidence (the mask token excluded). The policy's block size is taken from the trajectory.
    Raises `ModelError` where the trajectory holds tokens that the policy does not know.
    """
    table: Any = policy.model.get_input_embeddings()
    known = len(table.weight)
    largest = max((*trajectory.prompt, *trajectory.tokens))
    if largest >= known:
        raise ModelError(
            f"The trajectory holds token {largest}, but the policy knows tokens 0 to {known - 1}:"
            " give the policy that decoded it."
        )
    policy = replace(policy, block_size=trajectory.block_size)
    steps = every_step([trajectory])  # [1, C, blocks]
    C, L = steps.shape[1], len(trajectory.tokens)
    confidence = np.full((C, L), np.nan)
    top: list[tuple[tuple[int, float], ...]] = [()] * L
    room = max(1, min(COLUMNS // L - 1, LOGITS // (L * known)))
    for first in range(0, C, room):
        shown = states([trajectory], steps[:, first : first + room], policy.pad_token_id)
        chosen = shown.masked.to(policy.device)  # [1, c, L]
        with evaluating(policy), torch.inference_mode():
            canvases = lay_out(policy, [trajectory], shown)
            logits = canvases.logits(policy.forward, chosen, policy.mask_token_id)
            best, token = logits.float().softmax(-1).topk(min(count, known), dim=-1)  # [M, count]
        committed = shown.committed[0].tolist()
        where = chosen[0].nonzero().tolist()
        for (c, place), values, ids in zip(where, best.tolist(), token.tolist(), strict=True):
            confidence[first + c, place] = values[0]
            if committed[c][place]:
                top[place] = tuple(zip(ids, values, strict=True))
    return Alternatives(confidence, tuple(top))
