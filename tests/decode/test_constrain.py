"""Claim 22."""

import pytest
import torch

from diffgr2lib.decode import AnswerGrammar, CandidateTable, decode_blocks
from diffgr2lib.errors import ModelError
from diffgr2lib.model.masks import CONTEXTS, Context
from tests.tiny import MakePolicy, ragged_prompts, seeded, settings

N, K, V = 6, 4, 24
OPEN, LIST, COMMA, CLOSE, END = 2, 3, 4, 5, 1
THEMES, LABELS, SIDS = (6, 7), tuple(range(8, 14)), range(14, 22)
GRAMMAR = AnswerGrammar(((OPEN,), THEMES, (LIST,)), COMMA, CLOSE, END)


def table(levels: int) -> CandidateTable:
    """K of the 6 labels per row, with SIDs that candidates may share in part."""
    generator = torch.Generator().manual_seed(levels)
    labels = torch.stack([torch.randperm(6, generator=generator)[:K] + LABELS[0] for _ in range(N)])
    sids = torch.randint(SIDS[0], SIDS[-1] + 1, (N, K, levels), generator=generator)
    return CandidateTable(labels, sids, GRAMMAR)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("block_size", [1, 5, 8])
def test_claim_22_constrained_always_gives_a_permutation(
    make_policy: MakePolicy, context: Context, temperature: float, block_size: int
) -> None:
    orders = set()
    for seed, levels, tau in ((0, 2, 0.0), (1, 2, 0.3), (2, 0, 0.1), (3, 1, 2.0)):
        policy = make_policy(block_size, context, seed=seed, vocabulary=V)
        candidates = table(levels)
        config = settings(tau=tau, temperature=temperature, max_new_tokens=31, constrained=True)
        prompt, mask = ragged_prompts(N)
        out = decode_blocks(policy, prompt % V, mask, config, seeded(N), table=candidates)
        for n, row in enumerate(out.tokens):
            assert row.count(OPEN) == 1 and row.count(END) == 1 and row[-1] == END
            opened = row.index(OPEN)
            assert row[opened + 1] in THEMES and row[opened + 2] == LIST
            items = torch.tensor(row[opened + 3 : -1]).view(K, levels + 2).tolist()
            assert [item[-1] for item in items] == [COMMA] * (K - 1) + [CLOSE]
            pairs = {
                label: sid
                for label, sid in zip(
                    candidates.labels[n].tolist(), candidates.sids[n].tolist(), strict=True
                )
            }
            assert {item[0] for item in items} == set(pairs)
            assert all(item[1:-1] == pairs[item[0]] for item in items)
            orders.add(tuple(item[0] for item in items))
    assert len(orders) > N  # the model, not the filter, chose the order


def listed_labels(row: list[int]) -> list[int]:
    inside = row[row.index(LIST) :] if LIST in row else []
    return [token for token in inside if token in LABELS]


@pytest.mark.parametrize("context", CONTEXTS)
def test_claim_22_distinct_never_commits_one_id_twice(
    make_policy: MakePolicy, context: Context
) -> None:
    repeats = {True: 0, False: 0}
    alphabet = CandidateTable(
        torch.tensor(LABELS).expand(N, -1), torch.zeros(N, len(LABELS), 0).long(), GRAMMAR
    )
    for seed in range(3):
        for block_size, tau in ((1, 0.5), (4, 0.1), (8, 0.0)):
            policy = make_policy(block_size, context, seed=seed, vocabulary=V)
            for distinct in repeats:
                config = settings(tau=tau, temperature=1.0, max_new_tokens=48, distinct=distinct)
                prompt, mask = ragged_prompts(N)
                out = decode_blocks(policy, prompt % V, mask, config, seeded(N), table=alphabet)
                for row in out.tokens:
                    labels = listed_labels(row)
                    repeats[distinct] += len(labels) - len(set(labels))
    assert repeats[True] == 0 and repeats[False] > 10


def test_too_short_a_response_is_refused(make_policy: MakePolicy) -> None:
    prompt, mask = ragged_prompts(N)
    config = settings(max_new_tokens=19, constrained=True)
    with pytest.raises(ModelError, match="answer alone takes 20"):
        policy = make_policy(4, vocabulary=V)
        decode_blocks(policy, prompt % V, mask, config, table=table(2))
