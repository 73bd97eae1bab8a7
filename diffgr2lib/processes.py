"""Several processes on one run, as `accelerate launch` starts them: one writes, all take part."""

import os
from datetime import timedelta
from typing import TypeVar

from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object

T = TypeVar("T")
PATIENCE = timedelta(days=2)  # how long the others wait while the main process builds alone


def several() -> bool:
    """Whether this is one of several processes of a run."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def join(device: str) -> str:
    """Form the group with the other processes, once; the device on which this one computes."""
    if not several():
        return device
    return str(PartialState(cpu=device == "cpu", timeout=PATIENCE).device)


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


def mine(count: int) -> range:
    """Which of `count` things in a row this process does; `gathered` joins the results in order."""
    if not several():
        return range(count)
    rank, size = PartialState().process_index, PartialState().num_processes
    return range(rank * count // size, (rank + 1) * count // size)


def gathered(made: list[T]) -> list[T]:
    """The lists of all processes, one after another. All must come to the same calls."""
    return gather_object(made) if several() else made
