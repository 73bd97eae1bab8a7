"""Explore decodes what was asked for, and answers a wrong value with a sentence."""

import pytest

from diffgr2lib.config import DecodeConfig
from diffgr2lib.data.types import Catalogue
from diffgr2lib.errors import ConfigError
from diffgr2lib.model.policy import build_policy
from diffgr2lib.report.explore import Explorer, alert, number, parse_order, reorder
from diffgr2lib.text.grammar import Grammar
from diffgr2lib.text.tokenizer import train_tokenizer
from tests.viewer.samples import example


@pytest.fixture(scope="module")
def explorer():
    given, grammar = example(), Grammar(answer="label")
    items = tuple(c.item for c in given.candidates) + given.history
    words = train_tokenizer(Catalogue(items, (16, 16)), grammar)
    make = {"ar": 1, "diffusion": 4}
    loaders = {
        name: lambda size=size: build_policy(words, 32, 2, 2, 64, 512, seed=0, block_size=size)
        for name, size in make.items()
    }
    return Explorer(loaders, [given, given], grammar, DecodeConfig(max_new_tokens=12), ar="ar")


@pytest.mark.parametrize("text", ["C A B", "c,a,b", "cab", " C; A B "])
def test_an_order_is_read_in_any_common_form(text):
    assert parse_order(text, 3) == (2, 0, 1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("A B B", "names B more than once"),
        ("A B", "leaves out C"),
        ("A B D", "'D' is no candidate"),
        ("A B <script>", "'<SCRIPT>' is no candidate"),
    ],
)
def test_a_wrong_order_says_what_is_wrong(text, sentence):
    with pytest.raises(ConfigError, match=sentence):
        parse_order(text, 3)


@pytest.mark.parametrize("value", ["", "x", "1.5", "0", "nan", "inf"])
def test_a_wrong_number_says_what_is_allowed(value):
    with pytest.raises(ConfigError, match="give a whole number from 1 to 5"):
        number(value, "user", 1, 5, whole=True)


def test_reordering_keeps_the_true_item():
    given = example(target=3)
    moved = reorder(given, (3, 0, 1, 2, 4, 5, 6, 7, 8, 9))
    assert moved.target == 0 and moved.candidates[0] == given.candidates[3]


def test_decoding_takes_what_was_asked_for(explorer):
    viewer = explorer.decode("diffusion", 2, "JIHGFEDCBA", "0.5", "6")
    assert viewer.lane.trajectory.block_size == 6 and viewer.ar.trajectory.block_size == 1
    assert viewer.example.candidates[0] == example().candidates[9]
    assert viewer.lane.alternatives is not None and "tau 0.5, blocks of 6" in viewer.title


@pytest.mark.parametrize(
    "wrong",
    [
        {"system": "x"},
        {"user": "3"},
        {"order": "A"},
        {"tau": "2"},
        {"block_size": "1"},
        {"tau": "?"},
    ],
)
def test_a_wrong_value_gives_a_sentence_and_keeps_the_last_result(explorer, wrong):
    assert explorer.attempt(system="diffusion")
    before = explorer.viewer
    assert not explorer.attempt(**{"system": "diffusion"} | wrong)
    assert explorer.message.endswith(".") and explorer.viewer is before
    assert explorer.attempt(system="ar") and explorer.message == ""


def test_the_controls_decode_and_report(explorer):
    pytest.importorskip("ipywidgets")
    controls = explorer._controls("diffusion")
    assert all(controls[name].description for name in ("system", "user", "order", "tau"))


def test_a_sentence_is_inert():
    assert "<script>" not in alert("<script>") and 'role="alert"' in alert("")
