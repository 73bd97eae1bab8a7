"""Peak memory of a call: the allocator's on a GPU, the resident set's on Linux, else nan."""

from collections.abc import Callable
from pathlib import Path

import torch

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_memory(call: Callable[[], object]) -> float:
    """Bytes by which memory grew at its highest while `call` ran; nan where nobody counts.

    On a CPU this is the process's resident set, so pages that an earlier call left to the process
    are not counted again: a lower bound.
    """
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        return float(torch.cuda.max_memory_allocated() - before)
    try:
        RESET.write_text("5")  # the kernel starts the high-water mark anew
        before = _kilobytes("VmRSS")
    except (OSError, KeyError):
        call()
        return float("nan")
    call()
    return 1024.0 * (_kilobytes("VmHWM") - before)


def _kilobytes(name: str) -> int:
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(lines[name].split()[0])
