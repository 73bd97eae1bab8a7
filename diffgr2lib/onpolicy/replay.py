"""Exact replay: score every committed token on the canvas on which it was committed.

A finished text must never be scored in one clean forward: inside a block its tokens would be seen
by the positions that had to guess them. "Diffusion-GR2" (arXiv 2607.01170), sections 5 and 6.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from diffgr2lib.decode.prepare import evaluating, pad_left
from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.model.columns import Columns, build_columns
from diffgr2lib.model.policy import Policy

Score = Callable[..., Tensor]


@dataclass(frozen=True, slots=True)
class Canvases:
    """Trajectories side by side, with C canvases of every block that is wanted.

    tokens, reveal_step: long [N, L], the commits; -1 where nothing was revealed. masked, committed:
    bool [N, C, L], still masked on canvas c, and committed from it. scored_by: long [N, C, L], the
    input column whose hidden state scores that position of that canvas.
    """

    input_ids: Tensor
    position_ids: Tensor
    attention: Tensor
    tokens: Tensor
    reveal_step: Tensor
    masked: Tensor
    committed: Tensor
    scored_by: Tensor

    def logits(self, score: Score, chosen: Tensor, mask_token_id: int) -> Tensor:
        """Logits [M, V] of the chosen (bool [N, C, L]) positions, the mask token excluded.

        They come row by row, then in the order of canvases and positions.
        """
        rows = chosen.flatten(1)  # [N, C * L]
        width = int(rows.sum(1).max())
        first = (~rows).long().argsort(dim=1, stable=True)[:, :width]  # the chosen ones lead
        at = self.scored_by.flatten(1).gather(1, first)
        real = rows.gather(1, first)
        logits = score(self.input_ids, self.position_ids, self.attention, columns=at)[real]
        banned = torch.arange(logits.shape[-1], device=logits.device) == mask_token_id
        return logits.masked_fill(banned, float("-inf"))


def last_steps(trajectories: Sequence[Trajectory]) -> list[list[int]]:
    """The last reveal step of every block of every trajectory."""
    return [
        [
            max(one.reveal_step[start : start + one.block_size])
            for start in range(0, len(one.tokens), one.block_size)
        ]
        for one in trajectories
    ]


def every_step(trajectories: Sequence[Trajectory]) -> Tensor:
    """Steps [N, C, blocks] for `lay_out`: canvas c of a block is its step c, -1 past its last."""
    last = last_steps(trajectories)
    blocks = max(map(len, last))
    ends = torch.tensor([[*row, *[-1] * (blocks - len(row))] for row in last])  # [N, blocks]
    step = torch.arange(int(ends.max()) + 1)[:, None].expand(len(last), -1, blocks)
    return torch.where(step <= ends[:, None], step, -1)


def lay_out(policy: Policy, trajectories: Sequence[Trajectory], steps: Tensor) -> Canvases:
    """Columns that score canvases: steps, long [N, C, blocks], says which step of each block.

    Blocks with step -1 take no columns. All canvases share prompt and clean columns, and see
    neither one another nor their own block's finished text.
    """
    B, mask_id, device = policy.block_size, policy.mask_token_id, policy.device
    N, C, blocks = steps.shape
    L = blocks * B
    prompt, prompt_mask = pad_left([one.prompt for one in trajectories], policy.pad_token_id)
    tokens = _padded([one.tokens for one in trajectories], L, policy.pad_token_id)
    reveal = _padded([one.reveal_step for one in trajectories], L, -1)
    real = torch.arange(L) < torch.tensor([[len(one.tokens)] for one in trajectories])
    step = steps.repeat_interleave(B, dim=2)  # [N, C, L]
    wanted = (step >= 0) & real[:, None]
    shown = (reveal[:, None] >= 0) & (reveal[:, None] < step)
    noisy = torch.where(shown, tokens[:, None], mask_id)
    columns = build_columns(
        prompt, prompt_mask, tokens, real, noisy if B > 1 else None, B, policy.context,
        dtype=policy.dtype,
    )  # fmt: skip
    scored_by = columns.noisy_from if B > 1 else columns.clean_from.expand(C, L)
    copies = wanted.flatten(1) if B > 1 else wanted.new_zeros(N, 0)
    kept = torch.cat([prompt_mask, real, copies], dim=1)  # [N, S]
    kept[:, : prompt.shape[1]] = True
    ids, positions, attention, place = _compact(columns, kept)
    scored = place.gather(1, scored_by.flatten()[None].expand(N, -1)).view(N, C, L)
    made = Canvases(
        ids, positions, attention, tokens, reveal,
        wanted & ~shown, wanted & (reveal[:, None] == step), scored,
    )  # fmt: skip
    return Canvases(*(getattr(made, name).to(device) for name in Canvases.__slots__))


def _compact(columns: Columns, kept: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The kept (bool [N, S]) columns alone, in order, and each old column's new place [N, S]."""
    size = int(kept.sum(1).max())
    index = (~kept).long().argsort(dim=1, stable=True)[:, :size]  # [N, size]
    real = kept.gather(1, index)
    attention = columns.attention[:, 0]
    rows = attention.gather(1, index[:, :, None].expand(-1, -1, attention.shape[2]))
    seen = rows.gather(2, index[:, None].expand(-1, size, -1))
    itself = torch.eye(size, dtype=torch.bool)
    seen = seen.masked_fill(~(real[:, None] | itself), float("-inf"))
    place = (kept.long().cumsum(1) - 1).clamp_min(0)
    ids = columns.input_ids.gather(1, index)
    return ids, columns.position_ids.gather(1, index), seen[:, None], place


def _padded(rows: Sequence[Sequence[int]], width: int, fill: int) -> Tensor:
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])


def replay(score: Score, policy: Policy, trajectories: Sequence[Trajectory]) -> Tensor:
    """Log-probability of every commit [N, L] under the current weights, 0 where none was made.

    At the weights and temperature that drew a trajectory it equals the recorded one. All rows must
    share one temperature (0 is scored at 1, as it is recorded).
    """
    canvases = lay_out(policy, trajectories, every_step(trajectories))
    logits = canvases.logits(score, canvases.committed, policy.mask_token_id).float()
    targets = canvases.tokens[:, None].expand_as(canvases.committed)[canvases.committed]
    law = (logits / (trajectories[0].temperature or 1.0)).log_softmax(-1)
    found = law.gather(1, targets[:, None])[:, 0]
    spread = torch.zeros_like(canvases.committed, dtype=found.dtype)
    # one canvas commits each position, so the sum over canvases picks its value
    return spread.masked_scatter(canvases.committed, found).sum(1)


@torch.no_grad()
def replay_reference(policy: Policy, trajectory: Trajectory) -> list[float]:
    """`replay` for one row in the obvious way: a forward of its own for every block and step."""
    B, mask_id = policy.block_size, policy.mask_token_id
    prompt = torch.tensor([trajectory.prompt], device=policy.device)
    known = torch.ones_like(prompt, dtype=torch.bool)
    found = [0.0] * len(trajectory.tokens)
    with evaluating(policy):
        for start in range(0, len(found), B):
            revealed = trajectory.reveal_step[start : start + B]
            for step in range(max(revealed) + 1):
                canvas = trajectory.canvas(step, mask_id)[start : start + B]
                clean = torch.tensor([[*trajectory.tokens[:start], *canvas]], device=policy.device)
                noisy = clean[:, None] if B > 1 else None
                columns = build_columns(
                    prompt, known, clean, torch.ones_like(clean, dtype=torch.bool), noisy, B,
                    policy.context, dtype=policy.dtype,
                )  # fmt: skip
                at = columns.noisy_from[0] if B > 1 else columns.clean_from
                logits = policy.forward(
                    columns.input_ids, columns.position_ids, columns.attention, columns=at[start:]
                )[0].float()
                logits[:, mask_id] = float("-inf")
                law = (logits / (trajectory.temperature or 1.0)).log_softmax(-1)
                for place in range(B):
                    if revealed[place] == step:
                        token = trajectory.tokens[start + place]
                        found[start + place] = float(law[place, token])
    return found
