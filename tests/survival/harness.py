"""Kills work in forked children: at a random moment, at a file event, or in the middle of a write.

A child is forked from the test's process, where everything is imported, so that an attempt costs
only what the stage costs.
"""

import dataclasses
import faulthandler
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tqdm import tqdm

from diffgr2lib import recipes
from diffgr2lib.artifacts import Store
from diffgr2lib.config import DataConfig, DecodeConfig, DiffusionConfig, EvalConfig, Preset
from diffgr2lib.errors import KitError
from diffgr2lib.onpolicy.rl import Judge, Judged
from diffgr2lib.presets import PRESETS
from diffgr2lib.stages import Stages

Work = Callable[[], Any]
FILE_EVENTS = ("open", "os.", "shutil.", "fcntl.")
# exit codes: one of the kit's own errors, any other, Ctrl-C
CLEAN, FAILED, INTERRUPTED = 3, 4, 128 + signal.SIGINT

SMOKE = PRESETS["smoke"]
TINY = dataclasses.replace(  # smoke, with answers too short to be right: only the bytes matter
    SMOKE,
    data=DataConfig(
        users=200, items=60, codes=16, max_train=40, max_validation=8, max_test=12, brands_shown=16
    ),
    diffusion=DiffusionConfig(block_size=8),
    decode=DecodeConfig(max_new_tokens=32),
    evaluate=EvalConfig(batch=4, bootstrap=200, taus=(1.0, 0.6), sweep=8, probe=2),
    **{
        name: dataclasses.replace(getattr(SMOKE, name), checkpoint_every=1, eval_every=1)
        for name in ("mid", "sft", "ar", "cft", "opd", "rl")
    },
)


def start(work: Work, log: Path, prepare: Work | None = None) -> int:
    """Fork a child that does `prepare` and `work`; its error or traceback goes to `log`."""
    sys.stdout.flush()
    said = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the child can take it
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        os.close(said)
        return child
    code, interrupts = FAILED, []

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        signal.default_int_handler(number, frame)

    try:
        signal.signal(signal.SIGINT, interrupt)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        faulthandler.enable(said)
        tqdm.set_lock(threading.RLock())  # its own is one for all forks: a killed child keeps it
        sys.stdout = sys.stderr = open(os.devnull, "w")
        (prepare or (lambda: None))()
        work()
        code = 0
    except KitError as error:
        unlimited()
        os.write(said, f"{type(error).__name__}: {error}\n".encode())
        code = INTERRUPTED if interrupts else CLEAN
    except BaseException:  # a library may turn Ctrl-C into an error of its own (safetensors does)
        unlimited()
        os.write(said, traceback.format_exc().encode())
        code = INTERRUPTED if interrupts else FAILED
    finally:
        os._exit(code)


def unlimited() -> None:
    """The log may grow again."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def finish(child: int, limit: float = 60) -> int:
    """Its exit code, or minus the signal that killed it. A child that hangs fails the test."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGABRT)  # its stack goes to the log
    os.waitpid(child, 0)
    raise AssertionError(f"child {child} was not done after {limit} s; its log says where it hung")


def kill_after(work: Work, log: Path, delay: float, kind: int = signal.SIGKILL) -> int:
    """Send a signal after `delay` seconds; the exit code (0: it was done before)."""
    child = start(work, log)
    until = time.monotonic() + delay
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, kind)
    return finish(child)


def kill_at_event(work: Work, log: Path, root: Path, number: int) -> int:
    """SIGKILL right before the child's `number`-th file event below `root` (opening, renaming ..)."""
    seen = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event.startswith(FILE_EVENTS) and any(str(root) in str(each) for each in arguments):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    return finish(start(work, log, lambda: sys.addaudithook(count)))


def limit_files(size: int, fatal: bool) -> Work:
    """A `prepare`: a write beyond `size` bytes of a file kills (`fatal`), or fails as a full disk."""

    def prepare() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if fatal else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return prepare


def linked(base: Path, root: Path, stage: str) -> Path:
    """A store at `root` with every stage of `base` but one; those are links, and not to be built."""
    root.mkdir(parents=True, exist_ok=True)
    for folder in base.iterdir():
        if folder.name != stage:
            (root / folder.name).symlink_to(folder)
    return root


def stages(root: Path, preset: Preset = TINY) -> Stages:
    return Stages(preset, Store(root))


def judge_by_tokens(*_: Any) -> Judge:
    """Rewards that vary within a group, as no answer of a model this small would."""
    return lambda n, tokens: Judged(sum(tokens) % 7 / 7, True, False)


def build(root: Path, stage: str) -> Work:
    """Build one stage of `TINY`, or the evaluation of a system as `evaluation-SYSTEM`, in a child."""

    def work() -> None:
        recipes.make_judge = judge_by_tokens
        made = stages(root)
        if stage == "data":
            made.data()
        elif stage.startswith("evaluation-"):
            made.evaluation(stage.removeprefix("evaluation-"), TINY.decode)
        else:
            made.trained(stage)

    return work


def result(root: Path, stage: str) -> dict[str, str]:
    """The hashes of the stage's one artifact, an evaluation's without its wall time."""
    import hashlib
    import json

    (folder,) = [path for path in (root / stage).iterdir() if path.is_dir() and not path.suffix]
    manifest = Store(root).load(stage, folder.name).manifest
    hashes = dict(manifest["sha256"])
    if stage.startswith("evaluation-"):
        found = json.loads((folder / "evaluation.json").read_text()) | {"seconds": 0}
        hashes["evaluation.json"] = hashlib.sha256(json.dumps(found).encode()).hexdigest()
    return hashes
