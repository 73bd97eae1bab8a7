"""Figures and tables: the same bytes every time, nothing that breaks their formats."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from diffgr2lib.report import gains, plots
from diffgr2lib.report.figures import PALETTE, save_figure, use_style
from diffgr2lib.report.tables import latex, markdown, save_table

ROOT = Path(__file__).parents[2]
DATE = re.compile(rb"20\d\d-\d\d-\d\d|D:20")


@pytest.fixture
def figure():
    use_style()
    made, axis = plt.subplots()
    axis.plot(np.arange(5), np.arange(5) ** 2, label="a & b")
    axis.legend()
    yield made
    plt.close(made)


def test_claim_31_a_figure_has_the_same_bytes_each_time(figure, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        names = [path.name for path in save_figure(figure, tmp_path / folder, "f")]
    assert names == ["f.svg", "f.png", "f.pdf"]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


SCRIPT = """
import sys
from matplotlib import pyplot as plt
from diffgr2lib.report.figures import save_figure
figure, axis = plt.subplots()
axis.plot([1, 2], [3, 4], label="a & b")
axis.legend()
save_figure(figure, sys.argv[1], "f")
"""


def test_claim_31_another_process_writes_the_same_bytes_without_the_style(tmp_path):
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "MPLBACKEND": "agg"}
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "new" / seed)]
        subprocess.run(command, env=environment, cwd=ROOT, check=True)
    for kind in ("svg", "png", "pdf"):
        one, two = ((tmp_path / "new" / seed / f"f.{kind}").read_bytes() for seed in "12")
        assert one == two and (kind == "png" or not DATE.search(one))


def test_a_figure_is_opaque_even_where_the_notebook_asked_otherwise(figure, tmp_path):
    with mpl.rc_context({"savefig.transparent": True, "savefig.facecolor": "black"}):
        paths = save_figure(figure, tmp_path, "f")
    picture = plt.imread(paths[1])
    assert picture[0, 0].tolist() == [1, 1, 1, 1] and picture[..., 3].min() == 1


def test_the_palette_is_told_apart_by_colour_blind_eyes_and_on_paper():
    """Neighbours in use differ in lightness or hue after deuteranopia (Vienot 1999, linear RGB)."""
    deuter = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])
    colours = np.array([mpl.colors.to_rgb(name) for name in PALETTE[:5]]) ** 2.2
    seen = np.clip(colours @ deuter.T, 0, 1) ** (1 / 2.2)
    gaps = [np.linalg.norm(a - b) for n, a in enumerate(seen) for b in seen[n + 1 :]]
    assert len(set(PALETTE)) == 8 and min(gaps) > 0.1


def test_hostile_cells_stay_in_their_cells(tmp_path):
    frame = pd.DataFrame({"a|b": ["x | y\nz", "50 % & $1_{2}"], "v": [0.12345, np.nan]})
    rows = markdown(frame).splitlines()
    assert len(rows) == 4 and rows[0] == "| a\\|b | v |"
    assert rows[2] == "| x \\| y z | 0.123 |" and rows[3].endswith("|  |")
    assert r"50 \% \& \$1\_\{2\}" in latex(frame)
    paths = save_table(frame, tmp_path, "t")
    assert pd.read_csv(paths[0])["v"][0] == 0.12345


def test_markdown_and_latex_layout_marks_are_escaped(tmp_path):
    frame = pd.DataFrame(
        {
            "name": ["<mask>", "[x](http://y)", "_a_ &amp; b_c", "`*\\"],
            "v": [1.0, 0.0001, 12.0, 0.5],
        }
    )
    rows = markdown(frame).splitlines()
    assert rows[1] == "| --- | ---: |"
    assert rows[2] == "| \\<mask> | 1.000 |" and rows[3] == "| [x]\\(http://y) | 1.0e-04 |"
    assert rows[4] == "| \\_a\\_ \\&amp; b_c | 12 |" and rows[5] == "| \\`\\*\\\\ | 0.500 |"
    lines = latex(frame).splitlines()
    assert lines[:2] == [r"\begin{tabular}{lr}", r"\toprule"] and lines[3] == r"\midrule"
    assert lines[4].startswith(r"\textless{}mask\textgreater{} &") and lines[5].startswith("{}[x]")
    paths = save_table(frame, tmp_path / "new", "t")
    before = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in save_table(frame, tmp_path / "new", "t")] == before
    assert pd.read_csv(paths[0]).equals(frame)


def test_markdown_can_show_a_readable_twin(tmp_path):
    frame = pd.DataFrame({"x": [0.5]})
    save_table(frame, tmp_path, "t", readable=pd.DataFrame({"x": ["half"]}))
    assert "half" in (tmp_path / "t.md").read_text() and "0.5" in (tmp_path / "t.csv").read_text()


def test_verdicts_say_what_the_interval_says():
    rows = {
        "system": "opd", "over": "cft_more", "tau": [0.9, 0.6, 0.4], "valid_gain": [0.0, 0.1, -0.1],
        "valid_gain_low": [-0.1, 0.05, -0.2], "valid_gain_high": [0.1, 0.2, -0.05],
    }  # fmt: skip
    lines = gains.verdicts(pd.DataFrame(rows))
    assert [line.split(", ")[-1] for line in lines] == ["no difference found", "more", "FEWER"]


def test_a_settings_table_that_was_made_is_shown_and_the_chosen_one_marked(tmp_path):
    made = pd.DataFrame(
        [
            {"setting": name, "chosen": name == "a", "tau": 0.6, "n": 5, "seeds": 1, "tpf": 6.0}
            | {
                f"{key}{end}": 0.5
                for key in ("valid", "valid_gain", "ndcg@3")
                for end in ("", "_low", "_high")
            }
            for name in ("a", "b")
        ]
    )
    made.to_csv(tmp_path / "opd_settings.csv", index=False)
    run = SimpleNamespace(out_dir=tmp_path, parameters=SimpleNamespace(force=False))
    found = gains.settings_table(run)
    pd.testing.assert_frame_equal(found, made)
    assert list(gains.readable_settings(found)[""]) == ["<- chosen", ""]
    figure = plots.settings(found)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a", "b"]
