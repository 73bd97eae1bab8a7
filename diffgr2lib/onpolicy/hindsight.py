"""The teacher's law given what the canvas shows further right, by Bayes' rule.

A causal teacher knows the tokens before position i and none after. Where later tokens of the block
are committed already, the law to learn from is

    q(v) ~ p(v | y_<i) * product over committed j > i of p(y_j | y_<i, v, y_i+1, .., y_j-1),

which the same teacher gives: it reads the block's rest once for every likely v. Masked tokens
between i and j stand as they were committed later. The paper has no such correction; it is ours.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from diffgr2lib.decode.prepare import pad_left
from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.model.columns import Columns, build_columns
from diffgr2lib.model.policy import Policy
from diffgr2lib.onpolicy.replay import States

LIKELY = 6  # tokens v that are weighed; the law of all others is 0


def causal_columns(teacher: Policy, made: Sequence[Trajectory], shown: States) -> Columns:
    """Finished texts as one causal row each."""
    prompt, prompt_mask = pad_left([one.prompt for one in made], teacher.pad_token_id)
    return build_columns(
        prompt, prompt_mask, shown.tokens, shown.real, None, 1, "causal", dtype=teacher.dtype
    )


@torch.no_grad()
def teacher_logits(teacher: Policy, made: Sequence[Trajectory], shown: States) -> Tensor:
    """The teacher's causal law on the finished texts: logits [N, L, V], the mask token excluded."""
    columns = causal_columns(teacher, made, shown)
    inputs = (columns.input_ids, columns.position_ids, columns.attention, columns.clean_from)
    ids, positions, attention, at = (part.to(teacher.device) for part in inputs)
    logits = teacher.forward(ids, positions, attention, columns=at)
    logits[..., teacher.mask_token_id] = float("-inf")
    return logits


def known_right(shown: States, block_size: int, asked: Tensor) -> Tensor:
    """Bool [Q, L]: committed positions to the right of each asked (row, canvas, place) [Q, 3]."""
    row, canvas, place = asked.unbind(1)
    at = torch.arange(shown.tokens.shape[1])
    inside = (at > place[:, None]) & (at // block_size == (place // block_size)[:, None])
    return inside & shown.real[row] & ~shown.masked[row, canvas]


def corrected_logits(
    teacher: Policy,
    made: Sequence[Trajectory],
    shown: States,
    asked: Tensor,
    laws: Tensor,
    block_size: int,
) -> Tensor:
    """Logits [Q, V] of the corrected laws at asked (row, canvas, place), long [Q, 3] on the CPU.

    laws: `teacher_logits`. Where nothing is committed further right it is the teacher's own law.
    """
    plain = laws[asked[:, 0], asked[:, 2]]
    right = known_right(shown, block_size, asked)
    blind = right.any(1).nonzero()[:, 0]
    if not len(blind):
        return plain
    k = min(LIKELY, plain.shape[1] - 1)
    likely = plain[blind].float().log_softmax(-1).topk(k, dim=-1)
    found = _evidence(teacher, made, shown, asked[blind], likely.indices.cpu(), right[blind])
    values = (likely.values + found.to(plain.device)).to(plain.dtype)
    law = torch.full_like(plain[blind], float("-inf")).scatter(1, likely.indices, values)
    return plain.index_copy(0, blind.to(plain.device), law)


@torch.no_grad()
def _evidence(
    teacher: Policy,
    made: Sequence[Trajectory],
    shown: States,
    asked: Tensor,
    likely: Tensor,
    right: Tensor,
) -> Tensor:
    """Log-likelihood [Q, k] of the tokens marked `right` [Q, L] after each likely token [Q, k].

    Every (question, token) pair is a branch: a few columns behind the row's own, which see the text
    before the place and one another, and no other branch.
    """
    rows, local = asked[:, 0].unique(return_inverse=True)
    base = causal_columns(
        teacher, [made[n] for n in rows.tolist()],
        States(shown.tokens[rows], shown.reveal_step[rows], shown.real[rows], shown.step[rows]),
    )  # fmt: skip
    R, S = base.input_ids.shape
    Q, k = likely.shape
    place = asked[:, 2]
    last = (right * torch.arange(right.shape[1])).argmax(1)
    size = (last - place).tolist()  # a branch holds place .. last - 1
    starts, width = [0] * Q, [0] * R
    for q, n in enumerate(local.tolist()):
        starts[q] = width[n]
        width[n] += k * size[q]
    W = max(width)
    ids = torch.full((R, W), teacher.pad_token_id)
    positions = torch.zeros(R, W, dtype=torch.long)
    barred = torch.full((R, S + W, S + W), float("-inf"), dtype=base.attention.dtype)
    barred[:, :S, :S] = base.attention[:, 0]
    barred[:, range(S, S + W), range(S, S + W)] = 0
    for q, n in enumerate(local.tolist()):
        i, m = int(place[q]), size[q]
        before = int(base.clean_from[i])
        text = shown.tokens[asked[q, 0], i : i + m]
        for b in range(k):
            at = starts[q] + b * m
            ids[n, at : at + m] = torch.cat([likely[q, b : b + 1], text[1:]])
            positions[n, at : at + m] = base.position_ids[n, before] + 1 + torch.arange(m)
            barred[n, S + at : S + at + m, :S] = base.attention[n, 0, before]
            own = torch.full((m, m), float("-inf")).triu(1).to(barred.dtype)
            barred[n, S + at : S + at + m, S + at : S + at + m] = own
    device = teacher.device
    logits = teacher.forward(
        torch.cat([base.input_ids, ids], 1).to(device),
        torch.cat([base.position_ids, positions], 1).to(device),
        barred[:, None].to(device),
        columns=torch.arange(S, S + W, device=device).expand(R, -1),
    ).float()
    logits[..., teacher.mask_token_id] = float("-inf")
    law = logits.log_softmax(-1).cpu()
    found = torch.zeros(Q, k)
    for q, n in enumerate(local.tolist()):
        i, m = int(place[q]), size[q]
        wanted = shown.tokens[asked[q, 0], i + 1 : i + 1 + m]
        counted = right[q, i + 1 : i + 1 + m].float()
        for b in range(k):
            at = starts[q] + b * m
            scores = law[n, at : at + m].gather(1, wanted[:, None])[:, 0]
            found[q, b] = (scores.masked_fill(counted == 0, 0.0)).sum()
    return found
