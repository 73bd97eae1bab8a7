"""The README: every test that it names exists, every number in its results is in the CSVs."""

import re
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_claim_is_held_by_the_tests_that_the_readme_names():
    rows = re.findall(r"^\| (\d+) \| .* \| (.+) \|$", README, re.MULTILINE)
    assert len(rows) >= 25
    for number, cell in rows:
        for file, name in re.findall(r"`(\S+\.py)` `(\w+)`", cell):
            source = (ROOT / "tests" / file).read_text(encoding="utf-8")
            assert f"def test_claim_{int(number):02d}_{name}(" in source


def section(title: str) -> str:
    return README.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


PAPER = "0.2811 0.2960 0.2930 0.2944 0.2951 0.80 0.89 0.94 0.0149 0.011".split()  # arXiv 2607.01170
SECTIONS = [
    ("Results on the toy world", ["toy"]),
    ("Speed", ["toy"]),
    ("Results on Amazon Beauty", ["beauty-cpu"]),
    ("Beside the paper", ["toy", "beauty-cpu"]),
]


def test_results_are_shown():
    assert any(f"## {title}\n" in README for title, _ in SECTIONS)


@pytest.mark.parametrize(
    ("title", "presets"), [pair for pair in SECTIONS if f"## {pair[0]}\n" in README]
)
def test_every_decimal_of_the_results_is_in_the_committed_tables(title, presets):
    known = set(PAPER) if title == "Beside the paper" else set()
    for path in [path for name in presets for path in (ROOT / "figures" / name).glob("*.csv")]:
        frame = pd.read_csv(path)
        for column in frame.columns:
            numbers = pd.to_numeric(frame[column], errors="coerce").dropna()
            known |= {f"{value:.{digits}f}" for value in numbers for digits in (1, 2, 3)}
    text = re.sub(r"```.*?```|\(figures/\S+\)|arXiv \S+|\d+ %", "", section(title), flags=re.S)
    found = re.findall(r"(?<![\w.])-?\d+\.\d{2,}", text)
    assert len(found) >= 20
    assert not [number for number in found if number not in known]
