"""Train one stage without a notebook: `python -m diffgr2lib.train cft --preset toy`."""

import argparse
import logging
import sys

from diffgr2lib.artifacts import Store
from diffgr2lib.config import PRESETS, preset
from diffgr2lib.errors import KitError
from diffgr2lib.recipes import RECIPES
from diffgr2lib.stages import Stages


def main(arguments: list[str] | None = None) -> int:
    """Build a stage and what it needs; print where it lies."""
    parser = argparse.ArgumentParser("diffgr2lib.train", description=__doc__)
    parser.add_argument("stage", choices=("data", *RECIPES))
    parser.add_argument("--preset", default="toy", help=", ".join(PRESETS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--force", action="store_true", help="build it anew")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        stages = Stages(preset(given.preset), Store(), given.seed, given.device, given.force)
        artifact = stages.data() if given.stage == "data" else stages.trained(given.stage)
    except KitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(artifact.path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
