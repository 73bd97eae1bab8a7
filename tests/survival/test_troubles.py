"""Two builders at once, a builder that dies, a clock that jumps, a folder that may not be written."""

import os
import random
import signal
import time

import pytest

from tests.survival.harness import CLEAN, build, finish, kill_after, linked, result, start


def test_two_processes_build_the_same_stage_once_and_both_have_it(ladder, tmp_path):
    root = linked(ladder, tmp_path / "store", "sft")
    both = [start(build(root, "sft"), tmp_path / f"log{n}") for n in range(2)]
    assert [finish(child) for child in both] == [0, 0]
    assert result(root, "sft") == result(ladder, "sft")
    assert {path.suffix for path in (root / "sft").iterdir()} <= {"", ".lock"}


def test_the_one_that_waits_goes_on_where_a_killed_builder_stopped(ladder, tmp_path):
    root = linked(ladder, tmp_path / "store", "sft")
    first = start(build(root, "sft"), tmp_path / "log")
    while not list((root / "sft").glob("*.work/step-*")):
        time.sleep(0.005)
    second = start(build(root, "sft"), tmp_path / "log")
    time.sleep(0.1)
    os.kill(first, signal.SIGKILL)
    assert finish(first) == -signal.SIGKILL and finish(second) == 0
    assert result(root, "sft") == result(ladder, "sft")


def test_a_clock_that_jumps_changes_no_byte(ladder, tmp_path):
    chance = random.Random(0)

    def jumping():
        real = time.time
        time.time = lambda: real() + chance.choice([-1e9, -3600, 0, 3600, 1e8])

    root = linked(ladder, tmp_path / "store", "cft")
    assert kill_after(build(root, "cft"), tmp_path / "log", 0.3) in (0, -signal.SIGKILL)
    assert finish(start(build(root, "cft"), tmp_path / "log", jumping)) == 0
    assert result(root, "cft") == result(ladder, "cft")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become a user without rights")
def test_a_store_that_may_not_be_written_is_one_clear_error(ladder, tmp_path):
    root, log = linked(ladder, tmp_path / "store", "sft"), tmp_path / "log"
    log.touch()
    log.chmod(0o666)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and folder.name.startswith(("pytest-", "test_")):
            folder.chmod(0o755)
    assert finish(start(build(root, "sft"), log, lambda: os.setuid(65534))) == CLEAN
    assert "cannot be written" in log.read_text() and "DIFFGR2_ARTIFACTS" in log.read_text()
