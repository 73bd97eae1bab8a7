"""One way to save a table: CSV (full precision), Markdown and LaTeX (three decimals)."""

from pathlib import Path
from typing import Any

import pandas as pd

LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{mark: rf"\{mark}" for mark in "&%$#_{}"},
    }
)


def save_table(
    frame: pd.DataFrame, folder: Path, name: str, readable: pd.DataFrame | None = None
) -> list[Path]:
    """Write name.csv, name.md and name.tex; md and tex show `readable` where it is given."""
    shown = frame if readable is None else readable
    paths = [Path(folder) / f"{name}.{kind}" for kind in ("csv", "md", "tex")]
    frame.to_csv(paths[0], index=False, lineterminator="\n", float_format="%.6g")
    paths[1].write_text(markdown(shown), encoding="utf-8")
    paths[2].write_text(latex(shown), encoding="utf-8")
    return paths


def cell(value: Any) -> str:
    """A value as people read it: three decimals for numbers that are not whole, "" for missing."""
    if value is None or (isinstance(value, float) and pd.isna(value)):
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) >= 2 else f"{value:.3f}"
    return str(value)


def markdown(frame: pd.DataFrame) -> str:
    """A GitHub table; pipes and line breaks in cells are escaped."""
    rows = [[str(name) for name in frame.columns]]
    rows += [[cell(value) for value in row] for row in frame.itertuples(index=False)]
    clean = [[text.replace("|", "\\|").replace("\n", " ") for text in row] for row in rows]
    rule = ["---"] * len(frame.columns)
    return "".join(f"| {' | '.join(row)} |\n" for row in (clean[0], rule, *clean[1:]))


def latex(frame: pd.DataFrame) -> str:
    """A booktabs tabular; special characters are escaped."""
    rows = [
        " & ".join(cell(value).translate(LATEX) for value in row) + r" \\"
        for row in [tuple(frame.columns), *frame.itertuples(index=False)]
    ]
    body = [rows[0], r"\midrule", *rows[1:]]
    columns = "l" * len(frame.columns)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", *body, r"\bottomrule"]
    return "\n".join([*lines, r"\end{tabular}"]) + "\n"
