"""Where the time of a decoding call goes: model forward, commit rule, cache, everything else."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from diffgr2lib.decode import ar, block, speculative
from diffgr2lib.decode.row_cache import RowCache
from diffgr2lib.measure.engines import Engine
from diffgr2lib.model import policy as models
from diffgr2lib.model.cache import BlockCache

# part of a step -> the functions that do it, as (owner, name)
PARTS: dict[str, tuple[tuple[Any, str], ...]] = {
    "forward": ((models, "score"),),
    "commit": ((block.Run, "step"), (speculative.Speculation, "take"),
               (speculative.Speculation, "propose"), (ar, "propose")),
    "cache": ((BlockCache, "update"), (BlockCache, "move"), (RowCache, "update"),
              (RowCache, "place"), (RowCache, "move")),
}  # fmt: skip


class Stopwatch:
    """Time spent in each part, without the parts called from inside it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = dict.fromkeys((*PARTS, "rest"), 0.0)
        self.stack = ["rest"]
        self.since = 0.0

    def switch(self) -> None:
        """Book the time since the last switch to the part that is on."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        self.seconds[self.stack[-1]] += now - self.since
        self.since = now

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its time booked to `part`."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self.switch()
            self.stack.append(part)
            try:
                return function(*args, **kwargs)
            finally:
                self.switch()
                self.stack.pop()

        return call


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


def time_shares(engine: Engine, prompt: Tensor, mask: Tensor, repeats: int = 3) -> dict[str, float]:
    """Shares of one decoding call by part (they sum to 1), the prefill left out of no part.

    Keys: forward (layers, attention, output head), commit, cache (writing keys and values), rest.
    A first call warms up and is not counted.
    """
    engine(prompt, mask)
    watch = Stopwatch()
    with ExitStack() as stack:
        for part, places in PARTS.items():
            for owner, name in places:
                function = vars(owner)[name]
                stack.enter_context(_replaced(owner, name, watch.timed(part, function)))
        watch.since = time.perf_counter()
        for _ in range(repeats):
            engine(prompt, mask)
        watch.switch()
    total = sum(watch.seconds.values())
    return {part: seconds / total for part, seconds in watch.seconds.items()}
