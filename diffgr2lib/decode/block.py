"""Block-diffusion decoding: prefill, denoise a canvas step by step, commit the block, go on.

`fused` and `unfused` are the two loops; they share one step and give the same tokens.
"Diffusion-GR2" (arXiv 2607.01170), section 3.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from diffgr2lib.decode.commit import choose, propose
from diffgr2lib.decode.constrain import (
    Allowance,
    CandidateTable,
    allow_constrained,
    allow_distinct,
    settle,
)
from diffgr2lib.decode.prepare import Generators, check_room, draw, evaluating, prefill
from diffgr2lib.decode.slots import Slots
from diffgr2lib.decode.speculative import decode_speculative
from diffgr2lib.decode.trajectory import Decoded, Trajectory, cut
from diffgr2lib.errors import ModelError
from diffgr2lib.model.cache import BlockCache
from diffgr2lib.model.masks import additive
from diffgr2lib.model.policy import Policy

if TYPE_CHECKING:
    from diffgr2lib.config import DecodeConfig


class Run:
    """State of one decoding call: the cache, and what was committed so far, row by row."""

    def __init__(
        self,
        policy: Policy,
        prompt: Tensor,
        prompt_mask: Tensor,
        config: "DecodeConfig",
        generators: Generators | None,
        record: bool,
        table: CandidateTable | None,
        clean: Tensor | None = None,
    ) -> None:
        N, P = prompt.shape
        B, device = policy.block_size, policy.device
        self.policy, self.config, self.record, self.table = policy, config, record, table
        if (config.distinct or config.constrained) and table is None:
            raise ModelError("distinct and constrained decoding need the candidates' token table.")
        self.blocks = -(-config.max_new_tokens // B)
        W = self.blocks * B
        check_room(policy, P, W)
        self.prompt, self.prompt_mask = prompt.to(device), prompt_mask.to(device).bool()
        self.lengths = self.prompt_mask.sum(1, keepdim=True)  # [N, 1]
        self.uniform = draw(generators, N, W, config.temperature, device)
        self.tokens = torch.full((N, W), policy.mask_token_id, device=device)
        self.begin = 0  # the first block to decode; those before it are given
        if clean is not None:
            self.begin, clean = clean.shape[1] // B, clean.to(device)
            self.tokens[:, : clean.shape[1]] = clean
        self.reveal_step = torch.full((N, W), -1, device=device)
        self.confidence = torch.zeros(N, W, device=device)
        self.log_probability = torch.zeros(N, W, device=device)
        self.nfe = torch.zeros(N, dtype=torch.long, device=device)
        seen = torch.cat([self.prompt_mask, self.prompt_mask.new_ones(N, W)], dim=1)
        self.keys = additive(seen[:, None], policy.dtype)  # [N, 1, 1, P + W]
        if bool(self.prompt_mask.all()):
            self.keys = self.keys[:1]  # no padding: one mask serves every row
        self.cache = BlockCache(policy.model.config, N, P + W, policy.dtype, device)
        self.slots = Slots(self.cache)
        self.first = prefill(policy, self.prompt, self.prompt_mask, self.cache, clean)
        self.nfe += 1  # first, [N, V], scores the first position of the coming block

    def forward(self, rows: Tensor, start: int, clean: int, canvas: int, columns: slice) -> Tensor:
        """Logits of the clean response positions from `start` on, and of the canvas after them."""
        width = clean + canvas
        ids = self.tokens[rows, start : start + width]
        positions = self.lengths[rows] + torch.arange(start, start + width, device=rows.device)
        keys = self.keys if len(self.keys) == 1 else self.keys[rows]
        keys = keys[..., : self.cache.length + width]
        attention = keys.expand(-1, -1, width, -1)  # a canvas sees all that came before, and itself
        if clean:
            hidden = torch.zeros(width, keys.shape[-1], dtype=keys.dtype, device=keys.device)
            hidden[:clean, self.cache.length + clean :] = float("-inf")
            if self.policy.context == "causal":
                above = torch.full((clean, clean), float("-inf"), device=keys.device).triu(1)
                hidden[:clean, self.cache.length : self.cache.length + clean] = above
            attention = keys + hidden
        self.nfe[rows] += 1
        return self.policy.forward(ids, positions, attention, self.cache, columns)

    def step(self, rows: Tensor, start: int, index: int, logits: Tensor) -> Tensor:
        """Commit one denoising step's tokens from shifted logits [n, B, V]; the rows that go on."""
        config, B, mask_id = self.config, logits.shape[1], self.policy.mask_token_id
        logits[:, :, mask_id] = float("-inf")
        stop = start + B
        canvas = self.tokens[rows, start:stop]
        masked = canvas == mask_id
        allowance = self.allowance(rows, start, B, logits.shape[2])
        uniform = None if self.uniform is None else self.uniform[rows, start:stop]
        allowed = None if allowance is None else allowance.allowed
        made = propose(logits, config.temperature, uniform, allowed)
        ready = masked if allowance is None else masked & allowance.eligible
        rule, tau, k, fallback = config.rule, config.tau, config.k, config.fallback
        commit = choose(rule, logits, made.confidence, ready, tau, k, fallback)
        if allowance is not None:
            commit = settle(commit, made.token, made.confidence, allowance)
        canvas = torch.where(commit, made.token, canvas)
        self.tokens[rows, start:stop] = canvas
        if self.record:
            for kept, new in (
                (self.reveal_step, torch.full_like(canvas, index)),
                (self.confidence, made.confidence.float()),
                (self.log_probability, made.log_probability.float()),
            ):
                kept[rows, start:stop] = torch.where(commit, new, kept[rows, start:stop])
        gaps = (canvas == mask_id).cumsum(1)
        ended = ((canvas == self.policy.eos_token_id) & (gaps == 0)).any(1)
        states = torch.where(ended, 2, (gaps[:, -1] == 0).long())  # LEFT, WAITING or WORKING
        return self.slots.update(states.tolist())  # the step's one host synchronisation

    def allowance(self, rows: Tensor, start: int, B: int, V: int) -> Allowance | None:
        """What the `constrained` or `distinct` option allows on these canvases."""
        if self.table is None or not (self.config.constrained or self.config.distinct):
            return None
        tokens, table, mask_id = self.tokens[rows], self.table.rows(rows), self.policy.mask_token_id
        if self.config.constrained:
            limit = self.config.max_new_tokens
            return allow_constrained(tokens, start, B, V, mask_id, table, limit)
        return allow_distinct(tokens, start, B, V, mask_id, table)

    def result(self) -> Decoded:
        """Cut at the end tokens and hand everything to the host."""
        end, limit, nfe = self.policy.eos_token_id, self.config.max_new_tokens, self.nfe.tolist()
        whole = self.tokens.tolist()
        tokens = [cut(row, end, limit) for row in whole]
        if not self.record:
            return Decoded(tokens, [], nfe)
        steps, sure = self.reveal_step.tolist(), self.confidence.tolist()
        laws, B, kept = self.log_probability.tolist(), self.policy.block_size, []
        for n, row in enumerate(whole):
            width = -(-len(tokens[n]) // B) * B
            kept.append(
                Trajectory(
                    prompt=tuple(self.prompt[n][self.prompt_mask[n]].tolist()),
                    tokens=tuple(row[:width]),
                    reveal_step=tuple(steps[n][:width]),
                    confidence=tuple(sure[n][:width]),
                    log_probability=tuple(laws[n][:width]),
                    block_size=B,
                    temperature=self.config.temperature,
                    length=len(tokens[n]),
                    nfe=nfe[n],
                )
            )
        return Decoded(tokens, kept, nfe)


def fused(run: Run) -> None:
    """The default loop: a finished block is stored by the pass that carries the next canvas."""
    B = run.policy.block_size
    canvas = B if B > 1 else 0  # at B = 1 the first position's logits are all there is
    for block in range(run.begin, run.blocks):
        start, rows = block * B, run.slots.wake()
        for index in range(B):
            if index == 0 and block > run.begin:
                logits = run.forward(rows, start - B, B, canvas, slice(B - 1, 2 * B - 1))
                run.cache.advance(B)
                run.first[rows] = logits[:, 0]
            else:
                logits = canvas_logits(run, rows, start)
            rows = run.step(rows, start, index, logits)
            if not len(rows):
                break
        if not run.slots.alive:
            return


def unfused(run: Run) -> None:
    """The reference loop: each finished block takes a pass of its own."""
    B = run.policy.block_size
    for block in range(run.begin, run.blocks):
        start, rows = block * B, run.slots.wake()
        for index in range(B):
            rows = run.step(rows, start, index, canvas_logits(run, rows, start))
            if not len(rows):
                break
        rows = run.slots.wake()
        if not len(rows):
            return
        run.first[rows] = run.forward(rows, start, B, 0, slice(B - 1, B))[:, 0]
        run.cache.advance(B)


def canvas_logits(run: Run, rows: Tensor, start: int) -> Tensor:
    """Shifted logits [n, B, V] of the canvas at `start`: the last clean ones, then canvas[:-1]."""
    B, first = run.policy.block_size, run.first[rows][:, None]
    if B == 1:
        return first
    return torch.cat([first, run.forward(rows, start, 0, B, slice(0, B - 1))], dim=1)


@torch.inference_mode()
def decode_blocks(
    policy: Policy,
    prompt: Tensor,
    prompt_mask: Tensor,
    config: "DecodeConfig",
    generators: Generators | None = None,
    record: bool = True,
    table: CandidateTable | None = None,
) -> Decoded:
    """Decode a response for each prompt [N, P] (padded left, prompt_mask True on real tokens).

    generators: one per row, needed above temperature 0; a row's tokens depend on its own only.
    table: the candidates' tokens, needed by `distinct` and `constrained`. Rows never influence one
    another, and a row leaves the batch when everything up to its end token stands. With
    `speculative` the tokens are the AR model's; see `decode_speculative`.
    """
    if config.speculative:
        return decode_speculative(policy, prompt, prompt_mask, config, generators, record)
    with evaluating(policy):
        run = Run(policy, prompt, prompt_mask, config, generators, record, table)
        (fused if config.fused else unfused)(run)
        return run.result()
