"""Train one stage without a notebook: `python -m diffgr2lib.train cft --preset toy`."""

import argparse
import logging
import sys
from pathlib import Path

from diffgr2lib import processes
from diffgr2lib.artifacts import Store
from diffgr2lib.errors import ConfigError, KitError
from diffgr2lib.footprint import Layout, read_layout
from diffgr2lib.presets import PRESETS, preset
from diffgr2lib.recipes import RECIPES
from diffgr2lib.stages import Stages
from diffgr2lib.workload import table


def main(arguments: list[str] | None = None) -> int:
    """Build a stage and what it needs, and print where it lies; or print what it would hold."""
    parser = argparse.ArgumentParser("diffgr2lib.train", description=__doc__)
    parser.add_argument("stage", choices=("data", *RECIPES), nargs="?")
    parser.add_argument("--preset", default="toy", help=", ".join(PRESETS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--force", action="store_true", help="build it anew")
    dry = parser.add_argument_group("dry run", "steps, tokens, memory a device; nothing is built")
    dry.add_argument("--dry-run", action="store_true", help="of the stage, or of every one")
    dry.add_argument("--processes", type=int, help="1, or as the settings say")
    dry.add_argument("--settings", type=Path, help="of accelerate, such as settings/fsdp.json")
    dry.add_argument("--prompt-tokens", type=int, help="length of a prompt")
    dry.add_argument("--throughput", type=float, help="training tokens/s a device, for the hours")
    given = parser.parse_args(arguments)
    if given.stage is None and not given.dry_run:
        parser.error("name a stage")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        chosen = preset(given.preset)
        if given.dry_run:
            one = Layout(1 if given.processes is None else given.processes)
            layout = read_layout(given.settings, given.processes) if given.settings else one
            names = list(RECIPES) if given.stage in (None, "data") else [given.stage]
            if given.throughput is not None and not given.throughput > 0:
                raise ConfigError(f"--throughput is {given.throughput}; give tokens/s above 0.")
            print(table(chosen, names, layout, given.prompt_tokens, given.throughput))
            return 0
        stages = Stages(chosen, Store(), given.seed, given.device, given.force)
        if not processes.is_main():
            logging.disable(logging.INFO)
        artifact = stages.data() if given.stage == "data" else stages.trained(given.stage)
    except KitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if processes.is_main():
        print(artifact.path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
