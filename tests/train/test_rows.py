"""Rows: what is encoded decodes to the text; weights, padding and end tokens are as promised."""

import json
import re

import numpy as np

from diffgr2lib.data import scorecard
from diffgr2lib.text.grammar import START
from diffgr2lib.train.mid import DictionaryRows
from diffgr2lib.train.rows import answer_weights, collate, encode_prompt


def test_the_tokenizer_knows_every_word_and_gives_the_text_back(examples, grammar, tokenizer, rows):
    card = scorecard.fit(examples)
    for example, row in zip(examples, rows, strict=True):
        made = scorecard.trace(card, example)
        text = grammar.response(example, made.order, made.theme, made.points)
        assert tokenizer.unk_token_id not in row.response
        assert tokenizer.decode(row.response[:-1]) == text
        assert tokenizer.decode(encode_prompt(tokenizer, grammar, example)) == grammar.prompt(
            example
        )


def test_trace_and_answer_are_weighted_apart(tokenizer, rows):
    for row in rows:
        start = row.response.index(tokenizer.convert_tokens_to_ids(START))
        assert set(row.weights[:start]) == {0.5} and set(row.weights[start:]) == {1.0}
        assert len(row.weights) == len(row.response)


def test_claim_13_the_end_token_is_supervised_even_when_pad_is_eos(tokenizer, rows):
    end = tokenizer.eos_token_id
    batch = collate(rows[:3], pad=end, end=end, block_size=16)
    for n, row in enumerate(rows[:3]):
        real = len(row.response)
        whole = -(-real // 16) * 16
        assert batch.response[n, real - 1] == end and batch.weights[n, real - 1] == 1.0
        # end tokens to the end of the block, with loss; nothing after it
        assert (batch.response[n, real:whole] == end).all()
        assert (batch.weights[n, real:whole] == 1.0).all()
        assert batch.response_mask[n, :whole].all()
        assert not batch.response_mask[n, whole:].any() and not batch.weights[n, whole:].any()


def test_ar_rows_end_at_their_end_token(tokenizer, rows):
    batch = collate(rows, tokenizer.pad_token_id, tokenizer.eos_token_id, 1)
    assert batch.response_mask.sum(1).tolist() == [len(row.response) for row in rows]


def test_a_part_of_a_batch_drops_only_padding(tokenizer, rows):
    batch = collate(rows, tokenizer.pad_token_id, tokenizer.eos_token_id, 16)
    part = batch.part(slice(2, 5), batch.prompt.device)
    for n in range(3):
        assert (
            part.prompt[n][part.prompt_mask[n]].tolist()
            == batch.prompt[n + 2][batch.prompt_mask[n + 2]].tolist()
        )
        assert float(part.weights[n].sum()) == float(batch.weights[n + 2].sum())


def test_weights_of_a_decoded_response_are_those_of_its_training_row(tokenizer, rows):
    for row in rows:
        found = answer_weights(tokenizer, row.response, 0.5, 1.0)
        assert found == row.weights and len(set(found)) == 2
    assert answer_weights(tokenizer, rows[0].response[:20], 0.5, 1.0) == [0.5] * 20
    assert answer_weights(tokenizer, [], 0.5, 1.0) == []


def test_ranking_rows_promote_the_best_by_points(catalogue, grammar, tokenizer):
    rng = np.random.default_rng(0)
    rows = DictionaryRows(tokenizer, grammar, catalogue, 10, 4, ranking=1.0)
    for n in range(20):
        row = rows.draw(rng, f"{n}")
        prompt, text = tokenizer.decode(row.prompt), tokenizer.decode(row.response)
        points = [int(value) for value in re.findall(r"=(\d+)", prompt)]
        labels = re.findall(r"([A-Z]) <", prompt)
        order = re.findall(r"=(\d+) ([A-Z])", text)
        best = sorted(range(len(points)), key=lambda k: -points[k])[:3]
        assert [(int(p), label) for p, label in order] == [(points[k], labels[k]) for k in best]
        answer = json.loads(text[text.index("{") :])
        named = [name.split()[0] for name in answer["recommendations"]]
        rest = [label for k, label in enumerate(labels) if k not in best]
        assert named == [labels[k] for k in best] + rest
        assert set(row.weights) == {1.0}
