"""Claim 29: metrics equal ir-measures on random rankings."""

import ir_measures
import numpy as np
from ir_measures import RR, Qrel, R, ScoredDoc, Success, nDCG

from diffgr2lib.data.types import Candidate, Example, Item
from diffgr2lib.evaluate.metrics import mrr, ndcg, recall
from diffgr2lib.text.grammar import Grammar


def test_claim_29_metrics_equal_ir_measures():
    rng = np.random.default_rng(0)
    ranks = rng.integers(1, 11, 200)
    qrels, docs = [], []
    for query, rank in enumerate(ranks):
        qrels.append(Qrel(str(query), "true", 1))
        for place in range(1, 11):
            name = "true" if place == rank else f"other{place}"
            docs.append(ScoredDoc(str(query), name, float(-place)))
    ours = {
        **{Success @ k: recall(ranks, k) for k in (1, 3, 5)},
        **{R @ k: recall(ranks, k) for k in (1, 3, 5)},
        **{nDCG @ k: ndcg(ranks, k) for k in (3, 5, 10)},
        RR: mrr(ranks),
    }
    compared = 0
    for found in ir_measures.iter_calc(list(ours), qrels, docs):
        compared += 1
        assert abs(ours[found.measure][int(found.query_id)] - found.value) < 1e-9
    assert compared == len(ours) * len(ranks)


def test_claim_29_an_invalid_response_scores_as_the_floor():
    items = [Item(n + 1, (n, n), f"title {n}", "", "", -1) for n in range(11)]
    candidates = tuple(Candidate(item, 0, 0, 0, 0) for item in items[:10])
    for target in range(10):
        example = Example(1, (items[10],), candidates, target, "test")
        for form in ("compact", "full"):
            parsed = Grammar(form=form).parse("no answer", example)
            rank = parsed.ranking(10).index(target) + 1
            assert not parsed.valid and rank == target + 1
            assert ndcg(rank, 10) == ndcg(example.target + 1, 10)


def test_metrics_keep_the_shape_of_their_ranks():
    ranks = np.array([[1, 2], [4, 10]])
    assert recall(ranks, 3).tolist() == [[1, 1], [0, 0]]
    assert ndcg(ranks, 3)[0].tolist() == [1.0, 1 / np.log2(3)]
    assert mrr(ranks)[1].tolist() == [0.25, 0.1]
