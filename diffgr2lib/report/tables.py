"""One way to save a table: CSV (eight digits), Markdown and LaTeX (three decimals)."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **{mark: rf"\{mark}" for mark in "&%$#_{}"},
    }
)
# what GitHub reads as layout: links, entities, and underscores that are not inside a word
MARKDOWN = re.compile(r"[\\|`*<~$]|(?<=\])\(|&(?=#?\w+;)|(?<!\w)_|_(?!\w)")


def save_table(
    frame: pd.DataFrame, folder: Path, name: str, readable: pd.DataFrame | None = None
) -> list[Path]:
    """Write name.csv, name.md and name.tex to the folder; md and tex show `readable` if given."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    shown = frame if readable is None else readable
    paths = [Path(folder) / f"{name}.{kind}" for kind in ("csv", "md", "tex")]
    text = frame.to_csv(index=False, lineterminator="\n", float_format="%.8g")
    for path, content in zip(paths, (text, markdown(shown), latex(shown)), strict=True):
        path.write_text(content, encoding="utf-8", newline="\n")
    return paths


def cell(value: Any) -> str:
    """A value as people read it: three decimals for numbers that are not whole, "" for missing."""
    if value is None or value is pd.NA or value is pd.NaT:
        return ""
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if np.isnan(number):
            return ""
        if 0 < abs(number) < 0.0005:
            return f"{number:.1e}"
        return f"{number:.0f}" if number.is_integer() and abs(number) >= 2 else f"{number:.3f}"
    return " ".join(str(value).split())


def markdown(frame: pd.DataFrame) -> str:
    """A GitHub table; marks that would be read as layout are escaped, line breaks become spaces."""
    rows = [
        [MARKDOWN.sub(r"\\\g<0>", cell(value)) for value in row]
        for row in [tuple(frame.columns), *frame.itertuples(index=False)]
    ]
    rule = ["---:" if number else "---" for number in _numeric(frame)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (rows[0], rule, *rows[1:]))


def latex(frame: pd.DataFrame) -> str:
    r"""A booktabs tabular; special characters are escaped, and no row begins with ``[`` or ``*``.

    After ``\\`` and ``\midrule`` LaTeX would take these for an option.
    """
    rows = []
    for row in [tuple(frame.columns), *frame.itertuples(index=False)]:
        text = " & ".join(cell(value).translate(LATEX) for value in row)
        rows.append(("{}" if text[:1] in ("[", "*") else "") + text + r" \\")
    body = [rows[0], r"\midrule", *rows[1:]]
    columns = "".join("r" if number else "l" for number in _numeric(frame))
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", *body, r"\bottomrule"]
    return "\n".join([*lines, r"\end{tabular}"]) + "\n"


def _numeric(frame: pd.DataFrame) -> list[bool]:
    """Which columns hold numbers, and so are set to the right."""
    return [pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes]
