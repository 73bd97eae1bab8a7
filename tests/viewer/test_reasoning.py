"""Table 4's rules: a perfect trace scores 1 everywhere, and each fault lowers its own score."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from diffgr2lib.data import scorecard
from diffgr2lib.data.evidence import EVIDENCE_LEVELS
from diffgr2lib.report.reasoning import CRITERIA, readable, reasoning_table, scores
from diffgr2lib.text.grammar import START, Grammar
from tests.viewer.samples import HOSTILE, example

CARD = scorecard.Scorecard({name: tuple(range(levels)) for name, levels in EVIDENCE_LEVELS.items()})
GRAMMARS = [
    Grammar(form=form, answer=answer) for form in ("compact", "full") for answer in ("sid", "label")
]


def perfect(grammar, theme="balanced"):
    one = example()
    made = scorecard.trace(CARD, one, theme)
    return grammar.response(one, made.order, made.theme, made.points)


@pytest.mark.parametrize("grammar", GRAMMARS, ids=str)
@pytest.mark.parametrize("theme", ["balanced", "follow"])
def test_a_perfect_trace_scores_one(grammar, theme):
    found = scores(perfect(grammar, theme), grammar, example(), CARD)
    assert found == dict.fromkeys(CRITERIA, 1.0)


def changed(before, after, count=1):
    grammar = Grammar()
    text = perfect(grammar)
    assert before in text
    return scores(text.replace(before, after, count), grammar, example(), CARD)


def lowered(found):
    return {name for name, value in found.items() if value < 1}


def test_each_fault_lowers_its_own_score():
    assert lowered(changed(" n1 ", " n3 ")) == {"grounding"}
    assert lowered(changed("A <a_0>", "A <a_5>")) == {"identifiers"}
    points = perfect(Grammar()).split(" =")[1].split()[0]
    assert lowered(changed(f"={points} B", "=63 B")) == {"arithmetic"}


def test_a_missing_line_costs_flow_grounding_and_sums():
    grammar = Grammar()
    text = perfect(grammar)
    begin, stop = text.index("C <a_2>"), text.index("D <a_3>")
    found = scores(text[:begin] + text[stop:], grammar, example(), CARD)
    assert found["flow"] == 12 / 13 and found["grounding"] == pytest.approx(10 / 11)
    assert found["arithmetic"] < 0.4 and found["identifiers"] == 1


def test_lines_out_of_order_cost_flow_alone():
    grammar = Grammar()
    text = perfect(grammar)
    a, b, c = text.index("C <a_2>"), text.index("D <a_3>"), text.index("E <a_4>")
    found = scores(text[:a] + text[b:c] + text[a:b] + text[c:], grammar, example(), CARD)
    assert lowered(found) == {"flow"} and found["flow"] == 12 / 13


def test_a_theme_that_the_prompt_does_not_bear_out_is_not_grounded():
    grammar, one = Grammar(), example()
    bare = type(one)(one.user, (), one.candidates, one.target, one.split)
    made = scorecard.trace(CARD, bare, "brand")
    text = grammar.response(bare, made.order, made.theme, made.points)
    assert scores(text, grammar, bare, CARD)["grounding"] == pytest.approx(10 / 11)


@given(some.text() | some.sampled_from(HOSTILE), some.sampled_from(GRAMMARS))
def test_no_string_raises_and_scores_stay_within_bounds(text, grammar):
    for response in (text, text + perfect(grammar), perfect(grammar)[:40] + text, START + text):
        found = scores(response, grammar, example(), CARD)
        assert all(0 <= value <= 1 for value in found.values())


def test_the_table_is_paired_by_user_and_reads_well():
    grammar = Grammar()
    good, bad = perfect(grammar), perfect(grammar).replace("A <a_0>", "A <a_5>", 1)
    world = SimpleNamespace(test=[example()] * 6, card=CARD)
    texts = {"ar_sft": [good] * 6, "cft": [good, bad] * 3}
    stages = SimpleNamespace(
        world=world,
        grammar=grammar,
        evaluation=lambda name, decode: SimpleNamespace(texts=texts[name]),
    )
    run = SimpleNamespace(ladders={0: stages}, preset=SimpleNamespace(decode=None))
    table = reasoning_table(run, ["cft"]).set_index(["system", "criterion"])
    row = table.loc["cft", "identifiers"]
    assert row["n"] == 6 and row["seeds"] == 1
    assert row["difference"] == pytest.approx(row["score"] - 1) and row["difference_low"] < 0
    assert table.loc["ar_sft"]["difference"].isna().all()
    shown = readable(table.reset_index())
    assert len(shown) == 4 and not shown.isna().any().any()
