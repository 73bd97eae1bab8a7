"""The notebooks: clean as committed, and run headless from a folder that is not theirs."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import papermill
import pytest

from diffgr2lib.run import PARAMETERS

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_clean(path):
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    assert (book.nbformat, book.nbformat_minor) == (4, 5)
    assert book.metadata.kernelspec.name == "python3"
    assert not set(book.metadata) & {"papermill", "widgets"}
    assert book.cells[0].cell_type == "markdown" and book.cells[0].source.startswith("# ")
    tagged = [cell for cell in book.cells if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1
    found = papermill.inspect_notebook(str(path))
    assert set(found) == set(PARAMETERS)
    assert all(entry["inferred_type_name"] != "None" for entry in found.values())
    for cell in book.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None
            assert len(cell.source.splitlines()) <= 10
            nodes = ast.walk(ast.parse(cell.source))
            assert not any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in nodes)
    assert any("check" in cell.metadata.get("tags", []) for cell in book.cells)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A folder outside the project, and one artifact store for all notebooks of this module."""
    return tmp_path_factory.mktemp("elsewhere")


def papermill_run(path: Path, folder: Path, *parameters: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DIFFGR2_ARTIFACTS": str(folder / "artifacts")}
    command = [sys.executable, "-m", "papermill", str(path), str(folder / path.name)]
    command += ["-k", "python3", "-p", "preset", "smoke", "-p", "out_dir", str(folder / "figures")]
    return subprocess.run(
        [*command, *parameters], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.notebooks
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_at_smoke_from_another_folder(path, elsewhere):
    done = papermill_run(path, elsewhere)
    assert done.returncode == 0, done.stderr[-3000:]
    text = (elsewhere / path.name).read_text(encoding="utf-8")
    assert "mechanics only" in text and "holds:" not in text
    assert (elsewhere / "figures" / "manifest.json").exists()


@pytest.mark.notebooks
def test_a_misspelt_parameter_stops_the_notebook(elsewhere):
    done = papermill_run(NOTEBOOKS[-1], elsewhere, "-p", "sedes", "1")
    assert done.returncode != 0 and "Did you mean 'seeds'" in done.stderr
