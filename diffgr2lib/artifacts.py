"""The artifact store: each stage's result under its key, whole and verified, or not at all."""

import hashlib
import json
import logging
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError

from diffgr2lib import processes
from diffgr2lib.errors import ArtifactError
from diffgr2lib.files import discard, disk_failed, files_below, sync
from diffgr2lib.provenance import git_state, project_root, sha256, source_hash

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


class Store:
    """Artifacts under `root` (DIFFGR2_ARTIFACTS, else artifacts/ in the project)."""

    def __init__(self, root: Path | None = None) -> None:
        named = os.environ.get("DIFFGR2_ARTIFACTS")
        self.root = Path(root or named or project_root() / "artifacts").expanduser().absolute()

    def get_or_build(
        self,
        stage: str,
        key: str,
        build: Build,
        config: dict[str, Any],
        seed: int,
        parents: Sequence[str],
        force: bool = False,
        together: bool = False,
    ) -> Artifact:
        """The stage's artifact, verified; built first where it is missing (or with `force`).

        build(out, work) fills `out` and returns metrics. `work` survives a kill, so that a long
        stage can resume, and is removed at the end; `force` starts anew where there is an artifact,
        and else resumes. `out` becomes the artifact in one rename. Of several processes one builds
        and the others wait. Of the processes of one run only the main one locks and writes; with
        `together` the others call `build` too, to do their share, and their `out` is dropped.
        Raises `ArtifactError` for a damaged artifact.
        """
        folder = self.root / stage / key
        if not processes.is_main():
            if processes.tell(False):
                with TemporaryDirectory() as dropped:
                    build(Path(dropped), folder.with_suffix(".work"))
            processes.tell(None)
            return self.load(stage, key)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder.with_suffix(".lock"))
            try:
                lock.acquire(timeout=0)
            except Timeout:
                log.info("WAIT  %-22s %s  another process is building it", stage, key)
                lock.acquire()
        except OSError as error:
            raise ArtifactError(
                f"The artifact folder {self.root} cannot be written ({error});"
                " set DIFFGR2_ARTIFACTS to a folder that can."
            ) from error
        try:
            if force and os.path.lexists(folder):
                discard(folder.with_suffix(".work"))
                discard(folder)
            if os.path.lexists(folder):
                artifact = self.load(stage, key)
                _tidy(folder)
                processes.tell(False)
                processes.tell(None)
                log.info("HIT   %-22s %s", stage, key)
                return artifact
            log.info("MISS  %-22s %s  building", stage, key)
            made = self._build(folder, stage, key, build, config, seed, parents, together)
            processes.tell(None)
            return made
        except (OSError, SafetensorError) as error:
            if not disk_failed(error):
                raise
            raise ArtifactError(
                f"Stage {stage} cannot be written to {self.root} ({error}). Free space there and"
                " run again, which goes on from the last checkpoint; or set DIFFGR2_ARTIFACTS to"
                " another folder."
            ) from error
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
        together: bool,
    ) -> Artifact:
        out, work = folder.with_suffix(".new"), folder.with_suffix(".work")
        discard(out)
        out.mkdir()
        work.mkdir(exist_ok=True)
        for half in work.glob("writing-*"):  # of a run that was killed
            discard(half)
        processes.tell(together)
        began = time.perf_counter()
        metrics = build(out, work)
        seconds = time.perf_counter() - began
        files = files_below(out)
        strangers = [file.name for file in files if file.is_symlink() or not file.is_file()]
        if strangers or (out / MANIFEST).exists():
            names = ", ".join(strangers) or MANIFEST
            raise ArtifactError(
                f"Stage {stage} wrote {names}; it may write plain files of other names."
            )
        manifest: dict[str, Any] = {
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
            "sha256": {f.relative_to(out).as_posix(): sha256(f) for f in files},
        }
        # as it will be read back (tuples are lists, NumPy's numbers plain), then sealed
        manifest = json.loads(json.dumps(manifest, default=_plain))
        manifest["seal"] = seal(manifest)
        text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
        (out / MANIFEST).write_text(text, encoding="utf-8")
        sync(*files_below(out), *(path for path in out.rglob("*") if path.is_dir()), out)
        os.replace(out, folder)
        sync(folder.parent)
        _tidy(folder)
        log.info("DONE  %-22s %s  %.1f s", stage, key, seconds)
        return Artifact(stage, key, folder, manifest, hit=False)

    def load(self, stage: str, key: str) -> Artifact:
        """Read and verify one artifact. Raises `ArtifactError` naming the file that is amiss."""
        folder = self.root / stage / key
        mend = (
            f"Remove it with `rm -r '{folder}'` and run again: only this stage is rebuilt."
            " `--force` (in a notebook: force = True) rebuilds every stage."
        )
        path = folder / MANIFEST
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            found = (manifest["format"], manifest["stage"], manifest["key"])
            hashes, sealed = dict(manifest["sha256"]), manifest["seal"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"{path} cannot be read ({error!r}). {mend}") from error
        if found[0] != FORMAT:
            raise ArtifactError(f"{path} has format {found[0]}, this kit reads {FORMAT}. {mend}")
        if found[1:] != (stage, key):
            raise ArtifactError(f"{path} belongs to {found[1]} {found[2]}. {mend}")
        if sealed != seal(manifest):
            raise ArtifactError(f"{path} is damaged: its seal does not fit its content. {mend}")
        present = {f.relative_to(folder).as_posix() for f in files_below(folder)} - {MANIFEST}
        for name in sorted(present ^ set(hashes)):
            what = "is missing" if name in hashes else "does not belong there"
            raise ArtifactError(f"{folder / name} {what}. {mend}")
        for name, expected in hashes.items():
            file = folder / name
            if file.is_symlink() or not file.is_file():
                raise ArtifactError(f"{file} is a link or no plain file. {mend}")
            try:
                found_hash = sha256(file)
            except OSError as error:
                raise ArtifactError(f"{file} cannot be read ({error}). {mend}") from error
            if found_hash != expected:
                raise ArtifactError(f"{file} is damaged: its hash is another. {mend}")
        return Artifact(stage, key, folder, manifest, hit=True)


def seal(manifest: dict[str, Any]) -> str:
    """Hash of a manifest's content, without the seal itself."""
    rest = {name: value for name, value in manifest.items() if name != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _tidy(folder: Path) -> None:
    """Remove what a finished artifact no longer needs, a killed run's leftovers included."""
    for suffix in (".gone", ".new.gone", ".work.gone", ".work"):
        discard(folder.with_suffix(suffix))


def _plain(value: Any) -> Any:
    """Numbers and arrays of NumPy and torch as JSON has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} cannot stand in a manifest; give numbers, text, lists and dicts.")
