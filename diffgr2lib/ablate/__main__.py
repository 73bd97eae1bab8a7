"""Train and evaluate every cell without a notebook: `python -m diffgr2lib.ablate --preset toy`.

Two commands with `--part 1/2` and `--part 2/2` share the work on two cores.
"""

import argparse
import logging
import sys

from diffgr2lib.ablate.decoders import wanted
from diffgr2lib.ablate.study import Study
from diffgr2lib.artifacts import Store
from diffgr2lib.errors import ConfigError, KitError
from diffgr2lib.presets import PRESETS, preset
from diffgr2lib.stages import Stages


def part(text: str) -> tuple[int, int]:
    """``2/3`` as (2, 3). Raises `ConfigError` for anything else."""
    first, _, second = text.partition("/")
    if first.isdigit() and second.isdigit() and 1 <= int(first) <= int(second):
        return int(first), int(second)
    raise ConfigError(f"--part is {text!r}; write 1/2 for the first of two parts.")


def main(arguments: list[str] | None = None) -> int:
    """Build what notebook 06 reads; a second call finds it."""
    parser = argparse.ArgumentParser("diffgr2lib.ablate", description=__doc__)
    parser.add_argument("--preset", default="toy", help=", ".join(PRESETS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--part", default="1/1", help="this command's share, as 1/2")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        chosen, (own, parts) = preset(given.preset), part(given.part)
        if not all(word.strip().isdigit() for word in given.seeds.split(",")):
            raise ConfigError(f"--seeds is {given.seeds!r}; write whole numbers, as 0,1,2.")
        for seed in map(int, given.seeds.split(",")):
            study = Study(Stages(chosen, Store(), seed))
            names = list(study.cells)
            for name, decode in wanted(chosen):
                if names.index(name) % parts == own - 1:
                    study.evaluation(name, decode)
    except KitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
