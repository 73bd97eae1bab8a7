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
class States:
    """Which canvases are asked for, and what they show; on the CPU.

    tokens, reveal_step: long [N, L], padded with -1 steps. real: bool [N, L], inside the row.
    step: long [N, C, L], the denoising step that each canvas shows. masked, committed: bool
    [N, C, L], still masked there, and committed from there.
    """

    tokens: Tensor
    reveal_step: Tensor
    real: Tensor
    step: Tensor

    @property
    def wanted(self) -> Tensor:
        """Bool [N, C, L]: positions that take a column."""
        return (self.step >= 0) & self.real[:, None]

    @property
    def masked(self) -> Tensor:
        """Bool [N, C, L]: wanted, and masked on that canvas."""
        revealed = self.reveal_step[:, None]
        return self.wanted & ((revealed < 0) | (revealed >= self.step))

    @property
    def committed(self) -> Tensor:
        """Bool [N, C, L]: wanted, and committed in that step."""
        return self.wanted & (self.reveal_step[:, None] == self.step)


def states(trajectories: Sequence[Trajectory], steps: Tensor, pad: int) -> States:
    """What canvases show: steps, long [N, C, blocks], says which step of each block (-1: none)."""
    B = trajectories[0].block_size
    L = steps.shape[2] * B
    return States(
        tokens=_padded([one.tokens for one in trajectories], L, pad),
        reveal_step=_padded([one.reveal_step for one in trajectories], L, -1),
        real=torch.arange(L) < torch.tensor([[len(one.tokens)] for one in trajectories]),
        step=steps.repeat_interleave(B, dim=2),
    )


@dataclass(frozen=True, slots=True)
class Canvases:
    """Trajectories side by side, with the wanted canvases of their blocks, as model input.

    scored_by: long [N, C, L], the input column whose hidden state scores that position of that
    canvas.
    """

    input_ids: Tensor
    position_ids: Tensor
    attention: Tensor
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


def lay_out(policy: Policy, trajectories: Sequence[Trajectory], shown: States) -> Canvases:
    """Columns that score canvases, on the policy's device.

    Blocks with step -1 take no columns. All canvases share prompt and clean columns, and see
    neither one another nor their own block's finished text.
    """
    B = policy.block_size
    N, C, L = shown.step.shape
    prompt, prompt_mask = pad_left([one.prompt for one in trajectories], policy.pad_token_id)
    noisy = torch.where(shown.masked, policy.mask_token_id, shown.tokens[:, None])
    columns = build_columns(
        prompt, prompt_mask, shown.tokens, shown.real, noisy if B > 1 else None, B, policy.context,
        dtype=policy.dtype,
    )  # fmt: skip
    scored_by = columns.noisy_from if B > 1 else columns.clean_from.expand(C, L)
    copies = shown.wanted.flatten(1) if B > 1 else shown.wanted.new_zeros(N, 0)
    kept = torch.cat([torch.ones_like(prompt_mask), shown.real, copies], dim=1)  # [N, S]
    ids, positions, attention, place = _compact(columns, kept)
    scored = place.gather(1, scored_by.flatten()[None].expand(N, -1)).view(N, C, L)
    return Canvases(*(part.to(policy.device) for part in (ids, positions, attention, scored)))


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
    return commit_laws(score, policy, trajectories)[0]


def commit_laws(
    score: Score, policy: Policy, trajectories: Sequence[Trajectory]
) -> tuple[Tensor, Tensor]:
    """`replay`, and the entropy in nats of the law behind each commit, without gradient: [N, L]."""
    shown = states(trajectories, every_step(trajectories), policy.pad_token_id)
    canvases = lay_out(policy, trajectories, shown)
    committed = shown.committed.to(policy.device)
    logits = canvases.logits(score, committed, policy.mask_token_id).float()
    law = (logits / (trajectories[0].temperature or 1.0)).log_softmax(-1)
    targets = shown.tokens.to(policy.device)[:, None].expand_as(committed)[committed]
    found = law.gather(1, targets[:, None])[:, 0]
    entropy = torch.special.entr(law.detach().exp()).sum(-1)
    # one canvas commits each position, so the sum over canvases picks its value
    blank = torch.zeros_like(committed, dtype=found.dtype)
    spread = [blank.masked_scatter(committed, values).sum(1) for values in (found, entropy)]
    return spread[0], spread[1]


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
