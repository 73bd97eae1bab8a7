"""Where a result comes from: the project's folder, git's state, hashes of sources and files."""

import hashlib
import importlib.util
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from diffgr2lib.errors import ArtifactError


def project_root() -> Path:
    """The nearest folder upwards from here with the kit's pyproject.toml, else its checkout.

    A kit that was installed as a wheel has no checkout: then it is this folder.
    """
    here = Path.cwd().resolve()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[1]):
        project = folder / "pyproject.toml"
        if project.is_file() and 'name = "diffgr2"' in project.read_text("utf-8", "replace"):
            return folder
    return here


def git_state() -> dict[str, Any]:
    """Revision of the checkout and whether it has uncommitted changes; None where unknown.

    The kit's own file must be tracked there: a kit installed below another project knows nothing.
    """
    folder = Path(__file__).resolve().parent
    tracked = ["ls-files", "--error-unmatch", Path(__file__).name]
    try:
        answers = [
            subprocess.run(
                ["git", "-C", str(folder), *command], capture_output=True, text=True, check=True
            ).stdout.strip()
            for command in (tracked, ["rev-parse", "HEAD"], ["status", "--porcelain"])
        ]
    except (OSError, subprocess.CalledProcessError):
        return {"revision": None, "dirty": None}
    return {"revision": answers[1], "dirty": bool(answers[2])}


def source_hash(modules: Sequence[str]) -> str:
    """Hash of the source files of modules; a package stands for all modules below it but commands.

    Each is read once a process: what runs is the code that was imported, not a later edit.
    """
    parts = [_module_hash(name) for name in sorted(set(modules))]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


@cache
def _module_hash(name: str) -> str:
    digest = hashlib.sha256()
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ArtifactError(f"The module {name} that a stage's key names does not exist.")
    origin = Path(spec.origin)
    files = sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]
    for file in (file for file in files if file.name != "__main__.py"):
        digest.update(f"{name}/{file.relative_to(origin.parent).as_posix()}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def sha256(path: Path) -> str:
    """Hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
