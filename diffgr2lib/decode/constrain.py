"""`distinct` and `constrained`: filters that keep an answer's ids apart, or force a permutation.

The baselines that "Diffusion-GR2" (arXiv 2607.01170), section 4, argues against. They serve the
compact answer: header tokens, then K items (label, then its semantic-ID tokens) with separators, a
closing token and the end token. Once the anchor (the token that opens the region) stands, every
later position's role follows from its distance to it; so the anchor may only be committed where
nothing right of it in the block stands yet, and nothing is committed right of it in the same step.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from diffgr2lib.errors import ModelError


@dataclass(frozen=True, slots=True)
class AnswerGrammar:
    """Token ids of the answer. header: allowed ids per header position, first and last single."""

    header: tuple[tuple[int, ...], ...]
    separator: int
    close: int
    end: int


@dataclass(frozen=True, slots=True)
class CandidateTable:
    """labels: long [N, K], different within a row. sids: long [N, K, levels] (levels may be 0)."""

    labels: Tensor
    sids: Tensor
    grammar: AnswerGrammar

    def rows(self, rows: Tensor) -> "CandidateTable":
        """The table of some rows only."""
        return CandidateTable(self.labels[rows], self.sids[rows], self.grammar)


@dataclass(frozen=True, slots=True)
class Allowance:
    """allowed: bool [N, B, V]. eligible: bool [N, B], may be committed now. contested: bool [N, B],
    positions that may not take a token another of them takes. anchor: its id; open: bool [N], no
    anchor yet.
    """

    allowed: Tensor
    eligible: Tensor
    contested: Tensor
    anchor: int
    open: Tensor


def _anchors(
    tokens: Tensor, anchor: int, start: int, B: int, mask_token_id: int
) -> tuple[Tensor, ...]:
    """Anchor place [N] (-1: none yet), distance of each canvas position, may it take the anchor."""
    found = tokens == anchor
    at = torch.where(found.any(1), found.long().argmax(1), -1)
    place = torch.arange(start, start + B, device=tokens.device)
    distance = place - at[:, None]  # [N, B], meaningless where at is -1
    stands = (tokens[:, start : start + B] != mask_token_id).long()
    right = stands.flip(1).cumsum(1).flip(1) - stands
    return at, distance, (at[:, None] < 0) & (right == 0)


def allow_distinct(
    tokens: Tensor, start: int, B: int, V: int, mask_token_id: int, table: CandidateTable
) -> Allowance:
    """Forbid, inside the list, every candidate label that the list already holds.

    tokens is long [N, W], the whole response so far. To keep labels of no candidate apart as well,
    give a table whose labels are the whole label alphabet.
    """
    anchor = table.grammar.header[-1][0]
    at, distance, may_open = _anchors(tokens, anchor, start, B, mask_token_id)
    inside = (at[:, None] >= 0) & (distance > 0)
    place = torch.arange(tokens.shape[1], device=tokens.device)
    listed = (at[:, None] >= 0) & (place > at[:, None])  # [N, W]
    used = torch.zeros(len(tokens), V, dtype=torch.bool, device=tokens.device)
    used.scatter_(1, tokens.where(listed, mask_token_id), True)
    label = torch.zeros_like(used).scatter_(1, table.labels, True)
    allowed = ~(inside[:, :, None] & (used & label)[:, None, :])
    allowed[:, :, anchor] = may_open
    everywhere = torch.ones_like(inside)
    return Allowance(allowed, everywhere, inside, anchor, at < 0)


def allow_constrained(
    tokens: Tensor,
    start: int,
    B: int,
    V: int,
    mask_token_id: int,
    table: CandidateTable,
    limit: int,
) -> Allowance:
    """Force the answer: it opens in time to fit `limit` tokens, and its list is a permutation.

    A label is one of the unused candidates'; its SID follows from it, so SID positions wait for
    their label.
    """
    grammar, (N, K), levels = table.grammar, table.labels.shape, table.sids.shape[2]
    H, item, device = len(grammar.header), levels + 2, tokens.device
    latest = limit - (H + K * item + 1)
    if latest < 0:
        raise ModelError(
            f"max_new_tokens is {limit}, but a constrained answer alone takes {limit - latest}."
        )
    anchor = grammar.header[0][0]
    at, distance, may_open = _anchors(tokens, anchor, start, B, mask_token_id)
    opened = at[:, None] >= 0
    place = torch.arange(start, start + B, device=device)

    slots = at[:, None] + H + item * torch.arange(K, device=device)  # [N, K] label places
    there = opened & (slots < tokens.shape[1])
    standing = tokens.gather(1, slots.clamp(0, tokens.shape[1] - 1)).where(there, -1)
    owner = standing[:, :, None] == table.labels[:, None, :]  # [N, slot, candidate]
    free = ~owner.any(1)  # [N, K]
    spare = table.labels.gather(1, free.long().argmax(1, keepdim=True))
    labels = torch.where(free, table.labels, spare)  # used ones repeat a free one

    e = distance - H
    slot, role = (e // item).clamp(0, K - 1), e % item  # [N, B]
    owned = owner.gather(1, slot[:, :, None].expand(-1, -1, K))  # [N, B, K]
    width = max(K, *(len(ids) for ids in grammar.header))
    ids = torch.full((N, B, width), grammar.end, device=device)
    in_list = (e >= 0) & (e < K * item)
    is_label, is_mark = in_list & (role == 0), in_list & (role == levels + 1)
    is_sid = in_list & ~is_label & ~is_mark
    mark = torch.where(slot == K - 1, grammar.close, grammar.separator)
    padded = torch.cat([labels, labels[:, :1].expand(N, width - K)], dim=1)
    ids = torch.where(is_label[:, :, None], padded[:, None, :], ids)
    ids = torch.where(is_mark[:, :, None], mark[:, :, None], ids)
    if levels:
        candidate = owned.long().argmax(-1)  # [N, B]
        sid = table.sids.flatten(1).gather(1, candidate * levels + (role - 1).clamp(0, levels - 1))
        ids = torch.where(is_sid[:, :, None], sid[:, :, None], ids)
    header = [(list(h) + [h[0]] * width)[:width] for h in grammar.header]
    in_header = (distance > 0) & (e < 0)
    heads = torch.tensor(header, device=device)[distance.clamp(0, H - 1)]  # [N, B, width]
    ids = torch.where(in_header[:, :, None], heads, ids)

    allowed = torch.zeros(N, B, V, dtype=torch.bool, device=device).scatter_(-1, ids, True)
    trace = ~opened | (distance < 0)
    anything = torch.ones(N, B, V, dtype=torch.bool, device=device)
    anything[:, :, grammar.end] = False
    anything[:, :, anchor] = may_open
    last = torch.zeros_like(anything)
    last[:, :, anchor] = True
    anything = torch.where((~opened & (place == latest))[:, :, None], last, anything)
    allowed = torch.where(trace[:, :, None], anything, allowed)
    eligible = torch.where(opened, ~is_sid | owned.any(-1), place <= latest)
    return Allowance(allowed, eligible, is_label & opened, anchor, at < 0)


def settle(commit: Tensor, token: Tensor, confidence: Tensor, allowance: Allowance) -> Tensor:
    """Drop commits [N, B] that clash within one step; of a clash the most confident one stays."""
    opens = commit & (token == allowance.anchor) & allowance.open[:, None]
    after = opens.long().cumsum(1) - opens.long() > 0  # strictly right of a new anchor
    commit = commit & ~after
    rival = commit & allowance.contested
    same = (token[:, :, None] == token[:, None, :]) & rival[:, :, None] & rival[:, None, :]
    place = torch.arange(commit.shape[1], device=commit.device)
    surer = confidence[:, None, :] > confidence[:, :, None]
    tied = (confidence[:, None, :] == confidence[:, :, None]) & (place[None, :] < place[:, None])
    return commit & ~(same & (surer | tied)).any(-1)
