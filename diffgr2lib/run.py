"""One notebook's run: checked parameters, stages, and where its tables and figures go."""

import ast
import difflib
import hashlib
import json
import logging
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers.utils import logging as transformers_logging

from diffgr2lib.artifacts import Store
from diffgr2lib.config import Preset
from diffgr2lib.device import check_device
from diffgr2lib.errors import ConfigError
from diffgr2lib.files import write_whole
from diffgr2lib.presets import preset
from diffgr2lib.provenance import git_state, project_root
from diffgr2lib.report.figures import save_figure, use_style
from diffgr2lib.report.tables import save_table
from diffgr2lib.stages import Stages

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

PARAMETERS = ("preset", "seeds", "device", "out_dir", "force")
LIBRARIES = ("torch", "transformers", "numpy", "scipy", "scikit-learn", "tokenizers", "accelerate")


@dataclass(frozen=True, slots=True)
class Parameters:
    """A notebook's five parameters, checked."""

    preset: Preset
    seeds: tuple[int, ...]
    device: str
    out_dir: Path
    force: bool


def check_parameters(values: Mapping[str, Any]) -> Parameters:
    """Check names and types of the parameters. Raises `ConfigError` that says how to mend each.

    seeds may be a list of whole numbers, one number, or a string such as "0,1,2". device is cpu,
    cuda, cuda:1 or auto. out_dir "" means figures/<preset> in the project.
    """
    for name in values:
        if name not in PARAMETERS:
            close = difflib.get_close_matches(name, PARAMETERS, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ConfigError(
                f"There is no parameter {name!r}; the parameters are {', '.join(PARAMETERS)}.{hint}"
            )
    missing = [name for name in PARAMETERS if name not in values]
    if missing:
        raise ConfigError(f"The parameters cell lacks {', '.join(missing)}.")
    chosen = preset(values["preset"])
    folder = _folder(values["out_dir"]) or project_root() / "figures" / chosen.name
    return Parameters(
        chosen,
        _seeds(values["seeds"]),
        _device(values["device"]),
        folder,
        _flag(values["force"]),
    )


def _folder(value: Any) -> Path | None:
    if not isinstance(value, (str, Path)):
        raise ConfigError(f"out_dir is {value!r}; give a folder's path, or '' for the usual one.")
    try:
        if "\0" in str(value) or (value and Path(value).exists() and not Path(value).is_dir()):
            raise ConfigError(f"out_dir is {value!r}, which is a file; give a folder's path.")
    except OSError as error:
        raise ConfigError(f"out_dir is {value!r}, which cannot be used ({error}).") from error
    return Path(value) if str(value) else None


def _seeds(value: Any) -> tuple[int, ...]:
    found = value.split(",") if isinstance(value, str) else value
    found = list(found) if isinstance(found, (list, tuple)) else [found]
    seeds = []
    for one in found:
        text = str(one).strip() if isinstance(one, (int, str)) else ""
        if isinstance(one, bool) or not re.fullmatch("[0-9]{1,9}", text):
            raise ConfigError(
                f"seeds is {value!r}; give whole numbers below 10^9, as [0, 1] or '0,1'."
            )
        seeds.append(int(text))
    if not seeds or len(set(seeds)) < len(seeds):
        raise ConfigError(f"seeds is {value!r}; give at least one seed, each once.")
    return tuple(seeds)


def _device(value: Any) -> str:
    if value == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return check_device(value)


def _flag(value: Any) -> bool:
    words = {"true": True, "false": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    if not isinstance(value, bool):
        raise ConfigError(f"force is {value!r}; give True or False.")
    return value


def injected(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a notebook's namespace, with every name that papermill injected.

    Papermill only warns about a misspelt name; its injected cell begins with "# Parameters".
    """
    names = dict.fromkeys(name for name in PARAMETERS if name in namespace)
    for source in namespace.get("In", []):
        if source.startswith("# Parameters"):
            for node in ast.parse(source).body:
                if isinstance(node, ast.Assign):
                    names |= dict.fromkeys(t.id for t in node.targets if isinstance(t, ast.Name))
    return {name: namespace[name] for name in names}


class Run:
    """A notebook's run; make it with `start_run`."""

    def __init__(self, notebook: str, parameters: Parameters, store: Store) -> None:
        self.notebook, self.parameters = notebook, parameters
        self.preset, self.seeds, self.out_dir = (
            parameters.preset,
            parameters.seeds,
            parameters.out_dir,
        )
        self.ladders = {
            seed: Stages(parameters.preset, store, seed, parameters.device, parameters.force)
            for seed in parameters.seeds
        }
        self.written: list[Path] = []

    @property
    def first(self) -> Stages:
        """The stages of the first seed."""
        return self.ladders[self.seeds[0]]

    @property
    def claims(self) -> bool:
        """Whether results mean anything: a quick preset only shows that the mechanics work."""
        return not self.preset.quick

    def figure(self, figure: "Figure", name: str) -> None:
        """Save a figure as SVG, PNG and PDF in the run's folder."""
        self.written += save_figure(figure, self.out_dir, name)

    def table(
        self, frame: "pd.DataFrame", name: str, readable: "pd.DataFrame | None" = None
    ) -> "pd.DataFrame":
        """Save a table as CSV, Markdown and LaTeX in the run's folder; returns it for display.

        readable: what Markdown and LaTeX show instead of the CSV's columns.
        """
        self.written += save_table(frame, self.out_dir, name, readable)
        return frame

    def check(self, statement: str, holds: bool) -> None:
        """Print a statement with its verdict; raise where it is refuted (not at a quick preset)."""
        verdict = "holds" if holds else "REFUTED"
        print(f"{verdict if self.claims else 'mechanics only'}: {statement}")
        if self.claims and not holds:
            raise AssertionError(f"refuted: {statement}")

    def finish(self) -> Path:
        """Record what this notebook wrote, with settings, versions and hashes, in manifest.json."""
        path = self.out_dir / "manifest.json"
        whole = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        whole[self.notebook] = {
            "preset": self.preset.to_json(),
            "seeds": list(self.seeds),
            "device": self.parameters.device,
            "threads": torch.get_num_threads(),
            "python": platform.python_version(),
            "versions": {name: version(name) for name in LIBRARIES},
            "git": git_state(),
            "sha256": {
                file.name: hashlib.sha256(file.read_bytes()).hexdigest()
                for file in sorted(set(self.written))
            },
        }
        write_whole(path, json.dumps(whole, indent=1, sort_keys=True) + "\n")
        return path


def start_run(namespace: Mapping[str, Any], notebook: str) -> Run:
    """Begin a notebook: `run = start_run(globals(), "03_cft")` after its parameters cell."""
    parameters = check_parameters(injected(namespace))
    try:
        parameters.out_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"out_dir is {parameters.out_dir}, which cannot be made ({error}); choose another."
        ) from error
    _log_to_stdout()
    transformers_logging.disable_progress_bar()  # a saved widget bar reads 0 %
    use_style()
    return Run(notebook, parameters, Store())


def _log_to_stdout() -> None:
    """The kit's own log lines as plain text (HIT, MISS, DONE), once."""
    logger = logging.getLogger("diffgr2lib")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
