"""Lossless decoding: the model drafts by diffusion and verifies itself as the AR model.

A pass holds ``[guess | canvas]``. The guess is a run of tokens, the first of them certain; its
columns are causal, so their logits are the AR law of every guessed token and of the one after it:
the longest agreeing run is kept, and the first disagreement is replaced from the AR law. The canvas
of masks behind it drafts the next block in the same pass, as if the whole guess will stand; where
it does not, the rest of the guess is tried again before a new canvas. Only causal context has this
property. "Diffusion-GR2" (arXiv 2607.01170) names it as a next step.

Sampling shares each position's uniform between draft and AR law. That couples the two laws, as the
rule min(1, p/q) with its residual law does, and the outcome is stronger than equality in law: the
tokens are those of `decode_ar` with the same generators, whatever made the guess.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from diffgr2lib.decode.commit import Proposal, propose
from diffgr2lib.decode.prepare import Generators, check_prompt, check_room, draw, evaluating
from diffgr2lib.decode.row_cache import RowCache, limits
from diffgr2lib.decode.slots import LEFT, Slots
from diffgr2lib.decode.trajectory import Decoded, Trajectory, cut
from diffgr2lib.errors import ModelError
from diffgr2lib.model.columns import prompt_positions
from diffgr2lib.model.masks import additive, visible
from diffgr2lib.model.policy import Policy

if TYPE_CHECKING:
    from diffgr2lib.config import DecodeConfig


class Speculation:
    """State of one call. Of row n, `kept[n]` response tokens have stored keys and values, and the
    `count[n]` tokens after them are its guess, of which the first is certain.
    """

    def __init__(
        self,
        policy: Policy,
        prompt: Tensor,
        prompt_mask: Tensor,
        config: "DecodeConfig",
        generators: Generators | None,
    ) -> None:
        (N, P), B, device = prompt.shape, policy.block_size, policy.device
        self.policy, self.config, self.W, self.P, self.B = (
            policy,
            config,
            config.max_new_tokens,
            P,
            B,
        )
        check_prompt(prompt_mask)
        check_room(policy, P, self.W)
        self.prompt, self.prompt_mask = prompt.to(device), prompt_mask.to(device).bool()
        self.lengths = self.prompt_mask.sum(1, keepdim=True)  # [N, 1]
        width = self.W + 2 * B + 1
        self.tokens = torch.full((N, width), policy.mask_token_id, device=device)
        self.confidence, self.log_probability = torch.zeros(2, N, width, device=device)
        self.nfe = torch.ones(N, dtype=torch.long, device=device)
        self.kept, self.count = torch.zeros(2, N, dtype=torch.long, device=device)
        uniform = draw(generators, N, self.W, config.temperature, device)
        # drafts beyond the limit are never emitted, so any number serves them
        self.uniform = None if uniform is None else torch.nn.functional.pad(uniform, (0, 2 * B + 1))
        self.real = torch.cat([self.prompt_mask, self.prompt_mask.new_ones(N, width)], dim=1)
        self.cache = RowCache(policy.model.config, N, P + width, policy.dtype, device)
        self.slots = Slots(self.cache)

    def prefill(self) -> None:
        """Store the prompts; the same pass carries the first canvas."""
        P, B, rows = self.P, self.B, self.slots.rows
        masks = torch.full((len(rows), B), self.policy.mask_token_id, device=rows.device)
        seen = visible(self.prompt_mask, torch.ones_like(masks).bool(), 0, B, "block")
        places = self.lengths + torch.arange(B, device=rows.device)
        positions = torch.cat([prompt_positions(self.prompt_mask), places], dim=1)
        self.cache.place(self.kept, 0, 0, P + B)
        ids, attention = torch.cat([self.prompt, masks], dim=1), additive(seen, self.policy.dtype)
        columns = slice(P - 1, P + B - 1)
        logits = self.policy.forward(ids, positions, attention, self.cache, columns)
        made = self.propose(logits, rows, self.kept)
        self.bounds = self.take(made, rows, self.kept, self.count, self.count)  # all zero

    def step(self) -> None:
        """One pass over the rows that still work: verify their guesses, draft the next ones."""
        (low, high, widest), rows, B = self.bounds, self.slots.rows, self.B
        kept, count, width = self.kept[rows], self.count[rows], widest + B
        here = torch.arange(width, device=rows.device)
        places, masks = kept[:, None] + here, here >= count[:, None]
        ids = self.tokens[rows[:, None], places].masked_fill(masks, self.policy.mask_token_id)
        stop = self.cache.place(kept + self.P, low + self.P, high + self.P, width)
        limit = limits(kept + self.P, count, B, width)
        seen = torch.arange(stop, device=rows.device) < limit[:, :, None]
        attention = additive(seen & self.real[rows, None, :stop], self.policy.dtype)
        # a canvas's last column would score the next block's first token, which CFT never trains
        columns = slice(0, width - 1)
        positions = self.lengths[rows] + places
        logits = self.policy.forward(ids, positions, attention, self.cache, columns)
        self.nfe[rows] += 1
        made = self.propose(logits, rows, kept + 1)
        agrees = (ids[:, 1:] == made.token) & ~masks[:, 1:]
        agreed = agrees.long().cumprod(1).sum(1)  # beside the first token, which was certain
        self.bounds = self.take(made, rows, kept + 1, agreed, count - 1 - agreed)

    def propose(self, logits: Tensor, rows: Tensor, first: Tensor) -> Proposal:
        """A token for each place from first [n] on, from logits [n, Q, V]."""
        logits[:, :, self.policy.mask_token_id] = float("-inf")
        uniform = None
        if self.uniform is not None:
            places = first[:, None] + torch.arange(logits.shape[1], device=rows.device)
            uniform = self.uniform[rows[:, None], places]
        return propose(logits, self.config.temperature, uniform)

    def take(
        self, made: Proposal, rows: Tensor, first: Tensor, agreed: Tensor, left: Tensor
    ) -> tuple[int, ...]:
        """Write what the columns made from place first [n] on; `agreed` and one more are certain.

        Where the whole guess stood (left 0), the canvas's drafts are the next guess, up to a block
        and while their confidence stays above draft_tau. Else its last `left` columns are guessed
        again, with what they gave behind the wrong token, and the canvas is drawn anew. Returns the
        least and greatest `kept`, and the widest guess, of the rows that still work.
        """
        here = torch.arange(made.token.shape[1], device=rows.device)
        at = (rows[:, None], first[:, None] + here)
        self.tokens[at] = made.token
        self.confidence[at] = made.confidence.float()
        self.log_probability[at] = made.log_probability.float()
        after = here - agreed[:, None]  # 0 at the last certain token
        sure = (after <= 0) | (made.confidence > self.config.draft_tau)
        run = (sure.long().cumprod(1).sum(1) - agreed).clamp_max(self.B)
        kept, count = first + agreed, torch.where(left > 0, left, run)
        self.kept[rows], self.count[rows] = kept, count
        ended = ((made.token == self.policy.eos_token_id) & (after <= 0)).any(1)
        ended |= kept + 1 >= self.W
        least = kept.masked_fill(ended, self.W).min()
        greatest, widest = (x.masked_fill(ended, 0).max() for x in (kept, count))
        states = torch.cat([torch.stack([least, greatest, widest]), ended * LEFT])
        host = states.tolist()  # the pass's one host synchronisation
        self.slots.update(host[3:])
        return tuple(host[:3])

    def result(self, record: bool) -> Decoded:
        """Cut at the end tokens; a trajectory is the AR model's: one token a step, its law."""
        whole, nfe = self.tokens.tolist(), self.nfe.tolist()
        answers = [cut(row, self.policy.eos_token_id, self.W) for row in whole]
        if not record:
            return Decoded(answers, [], nfe)
        sure, laws = self.confidence.tolist(), self.log_probability.tolist()
        kept = [
            Trajectory(
                prompt=tuple(self.prompt[n][self.prompt_mask[n]].tolist()),
                tokens=tuple(answer),
                reveal_step=(0,) * len(answer),
                confidence=tuple(sure[n][: len(answer)]),
                log_probability=tuple(laws[n][: len(answer)]),
                block_size=1,
                temperature=self.config.temperature,
                length=len(answer),
                nfe=nfe[n],
            )
            for n, answer in enumerate(answers)
        ]
        return Decoded(answers, kept, nfe)


@torch.inference_mode()
def decode_speculative(
    policy: Policy,
    prompt: Tensor,
    prompt_mask: Tensor,
    config: "DecodeConfig",
    generators: Generators | None = None,
    record: bool = True,
) -> Decoded:
    """Decode each prompt [N, P] (padded left) to exactly what `decode_ar` gives, in fewer passes.

    generators: one per row, needed above temperature 0. config.draft_tau ends a guess before the
    first draft that is less sure (0: a whole block). Raises `ModelError` under block context.
    """
    if policy.context != "causal":
        raise ModelError(
            "Speculative decoding needs context='causal': under block context a finished block's"
            " columns have seen the tokens that they would verify."
        )
    with evaluating(policy):
        run = Speculation(policy, prompt, prompt_mask, config, generators)
        run.prefill()
        while run.slots.alive:
            run.step()
        return run.result(record)
