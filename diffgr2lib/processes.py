"""Several processes on one run, as `accelerate launch` starts them: one writes, all take part."""

import os
from datetime import timedelta
from typing import TypeVar

from accelerate import PartialState
from accelerate.utils import broadcast_object_list

T = TypeVar("T")
PATIENCE = timedelta(days=2)  # how long the others wait while the main process builds alone


def several() -> bool:
    """Whether this is one of several processes of a run."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def join(cpu: bool) -> None:
    """Form the group with the other processes, once, before anything is built."""
    if several() and not PartialState._shared_state:
        PartialState(cpu=cpu, timeout=PATIENCE)


def is_main() -> bool:
    """Whether this process writes: the first, or the only one."""
    return not several() or PartialState().is_main_process


def tell(value: T) -> T:
    """What the main process says here; the others wait for it. All must come to the same calls."""
    if not several():
        return value
    said = [value]
    broadcast_object_list(said)
    return said[0]
