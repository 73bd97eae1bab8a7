"""Make a trained system ready to serve: `python -m diffgr2lib.serve --preset toy --system cft`.

Prints the artifact's key and folder. `--out` copies it, `--twin` writes its B = 1 twin.
"""

import argparse
import logging
import shutil
import sys
from pathlib import Path

from diffgr2lib.artifacts import MANIFEST, Store
from diffgr2lib.errors import ConfigError, KitError
from diffgr2lib.model.checkpoint import load
from diffgr2lib.presets import PRESETS, preset
from diffgr2lib.serve.reranker import save_twin, serving
from diffgr2lib.stages import READINGS, Stages


def main(arguments: list[str] | None = None) -> int:
    """Build the serving artifact, and copies of it where asked."""
    parser = argparse.ArgumentParser("diffgr2lib.serve", description=__doc__)
    parser.add_argument("--preset", default="toy", help=", ".join(PRESETS))
    parser.add_argument("--system", default="cft", help=", ".join(READINGS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a new folder for a copy that stands alone")
    parser.add_argument("--twin", type=Path, help="a new folder for the B = 1 twin, a plain LM")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        for folder in (given.out, given.twin):
            if folder is not None and folder.exists():
                raise ConfigError(f"{folder} exists already; name a new folder, or remove it.")
        made = serving(Stages(preset(given.preset), Store(), given.seed), given.system)
        if given.out is not None:
            shutil.copytree(made.path, given.out, ignore=shutil.ignore_patterns(MANIFEST))
        if given.twin is not None:
            save_twin(load(made.path), given.twin)
    except KitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{made.key} {made.path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
