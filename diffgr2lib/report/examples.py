"""Prompts, traces and answers as plain text, wrapped to a notebook's width."""

import textwrap
from typing import TYPE_CHECKING

from diffgr2lib.config import DecodeConfig
from diffgr2lib.text.grammar import LABELS, START, Grammar

if TYPE_CHECKING:
    from diffgr2lib.run import Run
    from diffgr2lib.stages import World

WIDTH = 118


def _wrapped(text: str) -> str:
    """Lines of WIDTH; a compact text breaks where a candidate or the answer begins."""
    lines = text.replace(START, f"\n{START}").splitlines()
    broken = [
        textwrap.fill(line, WIDTH, subsequent_indent="    ", break_on_hyphens=False)
        for line in lines
    ]
    return "\n".join(broken)


def _by_candidate(text: str) -> str:
    """A compact text with each labelled item on a line of its own."""
    words = text.split(" ")
    for place, word in enumerate(words[:-1]):
        if word in LABELS and words[place + 1].startswith("<a_"):
            words[place] = "\n  " + word
    return " ".join(words)


def show_example(grammar: Grammar, world: "World", number: int = 0) -> None:
    """Print a training prompt, the purchases behind it, and the teacher's kept response."""
    index, trace = world.traces[number]
    example = world.train[index]
    print("PURCHASES")
    for item in example.history:
        print("  ", textwrap.shorten(item.title, WIDTH - 4))
    print("\nPROMPT\n" + _wrapped(_by_candidate(grammar.prompt(example))))
    response = grammar.response(example, trace.order, trace.theme, trace.points)
    trace_text, answer = response.split(START, 1)
    print("\nRESPONSE\n" + _wrapped(_by_candidate(trace_text) + START + answer))
    true = example.candidates[example.target].item
    print(f"\nbought next: {LABELS[example.target]} {textwrap.shorten(true.title, 80)}")


def show_answer(
    run: "Run", system: str, decode: DecodeConfig, number: int = 0, limit: int | None = None
) -> None:
    """Print what a system wrote for one test user (of the first `limit`), failures in words."""
    found = run.first.evaluation(system, decode, limit=limit)
    failures = ", ".join(found.failures[number]) or "valid"
    text = found.texts[number]
    answer = text[text.rfind(START) :] if START in text else text[-400:]
    print(
        f"{system}: {failures}; {found.lengths[number]} tokens, {found.nfe[number]} forward passes"
    )
    print(textwrap.fill(answer, WIDTH, initial_indent="  ", subsequent_indent="  ") + "\n")
