"""Claim 34: a built wheel imports every module, and the core needs no GPU or notebook package."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

WALK = """
import importlib, pkgutil, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {refused}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refuse())
import diffgr2lib
names = [m.name for m in pkgutil.walk_packages(diffgr2lib.__path__, 'diffgr2lib.')]
for name in names:
    if not name.endswith('__main__'):
        importlib.import_module(name)
print(len(names), diffgr2lib.__file__)
"""
OPTIONAL = {
    "ipywidgets",
    "papermill",
    "jupyterlab",
    "liger_kernel",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT / "diffgr2lib", source / "diffgr2lib")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(folder)]
    command.append(str(source))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return next(folder.glob("*.whl"))


def test_claim_34_the_wheel_holds_every_module_and_no_tests(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(p.relative_to(ROOT)) for p in (ROOT / "diffgr2lib").rglob("*.py")}
    assert modules <= names and "diffgr2lib/py.typed" in names
    assert not any(name.startswith(("tests", "notebooks")) for name in names)


def test_claim_34_the_wheel_installed_elsewhere_imports_without_optional_packages(wheel, tmp_path):
    target = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", str(target), str(wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run(
        [sys.executable, "-c", WALK.format(refused=OPTIONAL)],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert str(target) in done.stdout
