"""The artifact store: each stage's result under its key, whole, hashed and verified, or not at all."""

import hashlib
import importlib.util
import json
import logging
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

from diffgr2lib.errors import ArtifactError

log = logging.getLogger(__name__)

FORMAT = 1
MANIFEST = "manifest.json"
LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "scipy", "scikit-learn")

Build = Callable[[Path, Path], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A finished stage: its folder, its manifest, and whether it was there already."""

    stage: str
    key: str
    path: Path
    manifest: dict[str, Any]
    hit: bool


def project_root() -> Path:
    """The nearest folder upwards from here with the kit's pyproject.toml, else this folder."""
    here = Path.cwd().resolve()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[1]):
        project = folder / "pyproject.toml"
        if project.is_file() and 'name = "diffgr2"' in project.read_text(encoding="utf-8"):
            return folder
    return here


def git_state() -> dict[str, Any]:
    """Revision of the checkout and whether it has uncommitted changes; None where unknown."""
    folder = Path(__file__).resolve().parent
    try:
        answers = [
            subprocess.run(
                ["git", "-C", str(folder), *command], capture_output=True, text=True, check=True
            ).stdout.strip()
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        ]
    except (OSError, subprocess.CalledProcessError):
        return {"revision": None, "dirty": None}
    return {"revision": answers[0], "dirty": bool(answers[1])}


def source_hash(modules: Sequence[str]) -> str:
    """Hash of the source files of modules; a package stands for all modules below it."""
    digest = hashlib.sha256()
    for name in sorted(set(modules)):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ArtifactError(f"The module {name} that a stage's key names does not exist.")
        origin = Path(spec.origin)
        files = sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]
        for file in files:
            digest.update(f"{name}/{file.name}".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def stage_key(
    stage: str, config: dict[str, Any], seed: int, parents: Sequence[str], modules: Sequence[str]
) -> str:
    """16 hexadecimal digits that change when, and only when, what the stage depends on changes."""
    parts = {
        "format": FORMAT,
        "stage": stage,
        "config": config,
        "seed": seed,
        "parents": list(parents),
        "source": source_hash(modules),
    }
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def sha256(path: Path) -> str:
    """Hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Store:
    """Artifacts under `root` (DIFFGR2_ARTIFACTS, else artifacts/ in the project)."""

    def __init__(self, root: Path | None = None) -> None:
        named = os.environ.get("DIFFGR2_ARTIFACTS")
        self.root = Path(root or named or project_root() / "artifacts")

    def get_or_build(
        self,
        stage: str,
        key: str,
        build: Build,
        config: dict[str, Any],
        seed: int,
        parents: Sequence[str],
        force: bool = False,
    ) -> Artifact:
        """The stage's artifact, verified; built first where it is missing (or with `force`).

        build(out, work) fills `out` and returns metrics. `work` survives a kill, so that a long stage
        can resume, and is removed at the end. `out` becomes the artifact in one rename. Of several
        processes one builds and the others wait. Raises `ArtifactError` for a damaged artifact.
        """
        folder = self.root / stage / key
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder.with_suffix(".lock"))
            lock.acquire()
        except OSError as error:
            raise ArtifactError(
                f"The artifact folder {self.root} cannot be written ({error}); set DIFFGR2_ARTIFACTS"
                " to a folder that can."
            ) from error
        try:
            if force and folder.exists():
                shutil.rmtree(folder)
            if folder.exists():
                artifact = self.load(stage, key)
                log.info("HIT   %-22s %s", stage, key)
                return artifact
            log.info("MISS  %-22s %s  building", stage, key)
            return self._build(folder, stage, key, build, config, seed, parents)
        finally:
            lock.release()

    def _build(
        self,
        folder: Path,
        stage: str,
        key: str,
        build: Build,
        config: dict[str, Any],
        seed: int,
        parents: Sequence[str],
    ) -> Artifact:
        out, work = folder.with_suffix(".new"), folder.with_suffix(".work")
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        work.mkdir(exist_ok=True)
        began = time.perf_counter()
        metrics = build(out, work)
        seconds = time.perf_counter() - began
        manifest = {
            "format": FORMAT,
            "stage": stage,
            "key": key,
            "config": config,
            "seed": seed,
            "parents": list(parents),
            "metrics": metrics,
            "seconds": round(seconds, 3),
            "device": "cuda" if torch.cuda.is_available() else "cpu",
            "dtype": str(torch.get_default_dtype()),
            "threads": torch.get_num_threads(),
            "python": platform.python_version(),
            "versions": {name: version(name) for name in LIBRARIES},
            "git": git_state(),
            "sha256": {str(f.relative_to(out)): sha256(f) for f in _files(out)},
        }
        text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
        (out / MANIFEST).write_text(text, encoding="utf-8")
        for file in _files(out):
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
        os.replace(out, folder)
        shutil.rmtree(work, ignore_errors=True)
        log.info("DONE  %-22s %s  %.1f s", stage, key, seconds)
        return Artifact(stage, key, folder, manifest, hit=False)

    def load(self, stage: str, key: str) -> Artifact:
        """Read and verify one artifact. Raises `ArtifactError` naming the file that is amiss."""
        folder = self.root / stage / key
        mend = (
            f"Delete the folder {folder} and run again to rebuild it, or rebuild with"
            " `python -m diffgr2lib.train STAGE --force` (in a notebook: force = True)."
        )
        path = folder / MANIFEST
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            found = (manifest["format"], manifest["stage"], manifest["key"])
            hashes = dict(manifest["sha256"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"{path} cannot be read ({error!r}). {mend}") from error
        if found[0] != FORMAT:
            raise ArtifactError(f"{path} has format {found[0]}, this kit reads {FORMAT}. {mend}")
        if found[1:] != (stage, key):
            raise ArtifactError(f"{path} belongs to {found[1]} {found[2]}. {mend}")
        present = {str(f.relative_to(folder)) for f in _files(folder)} - {MANIFEST}
        for name in sorted(present ^ set(hashes)):
            what = "is missing" if name in hashes else "does not belong there"
            raise ArtifactError(f"{folder / name} {what}. {mend}")
        for name, expected in hashes.items():
            if sha256(folder / name) != expected:
                raise ArtifactError(f"{folder / name} is damaged: its hash is another. {mend}")
        return Artifact(stage, key, folder, manifest, hit=True)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
