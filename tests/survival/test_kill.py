"""Claim 32: whatever moment a stage is killed at, the next run ends with the same bytes."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from diffgr2lib.artifacts import Store
from tests.survival.harness import (
    CLEAN,
    INTERRUPTED,
    build,
    finish,
    kill_after,
    kill_at_event,
    limit_files,
    linked,
    result,
    start,
)

ROOT = Path(__file__).resolve().parents[2]
STAGES = ("data", "mid", "sft", "cft", "ar", "opd", "rl", "evaluation-cft")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def seconds(ladder, stage):
    """How long the unbroken stage took."""
    (folder,) = [path for path in (ladder / stage).iterdir() if path.is_dir()]
    return Store(ladder).load(stage, folder.name).manifest["seconds"]


def completed(root, stage, ladder, log):
    """Let the stage end undisturbed, compare its bytes, and clear it away."""
    assert finish(start(build(root, stage), log)) == 0, log.read_text()[-3000:]
    assert result(root, stage) == result(ladder, stage)
    left = {path.suffix for path in (root / stage).iterdir()}
    assert left <= {"", ".lock"}, left
    shutil.rmtree(root / stage)


def survive_signals(ladder, root, log, stage, kills, limit=float("inf")):
    """Kill the stage at random moments, each next run going on from what the last one left."""
    chance, landed, done, rounds = random.Random(stage), 0, 0, 0
    until = time.monotonic() + limit
    linked(ladder, root, stage)
    while landed < kills and (time.monotonic() < until or landed < len(SIGNALS)):
        rounds += 1
        kind = SIGNALS[rounds % 3]
        delay = chance.uniform(0, 1.3 * seconds(ladder, stage))
        code = kill_after(build(root, stage), log, delay, kind)
        assert code in (0, -kind, INTERRUPTED), log.read_text()[-3000:]
        landed += code != 0
        if code == 0:
            completed(root, stage, ladder, log)
            done += 1
    completed(root, stage, ladder, log)
    return landed, done + 1


@pytest.mark.parametrize("stage", STAGES)
def test_claim_32_a_stage_killed_at_random_moments_ends_with_the_same_bytes(
    ladder, tmp_path, stage
):
    """Thirty times, or as often as ten seconds allow."""
    landed, done = survive_signals(ladder, tmp_path / "store", tmp_path / "log", stage, 30, 10)
    print(f"\n{stage}: {landed} kills, {done} completions, all with the same bytes")
    assert landed >= len(SIGNALS)


@pytest.mark.soak
@pytest.mark.parametrize("stage", STAGES)
def test_claim_32_a_hundred_kills_a_stage_change_no_byte(ladder, tmp_path, stage):
    landed, done = survive_signals(ladder, tmp_path / "store", tmp_path / "log", stage, 100)
    print(f"\n{stage}: {landed} kills, {done} completions, all with the same bytes")


def survive_events(ladder, tmp_path, stage, numbers):
    """SIGKILL before each of these file events of a fresh build; the number of kills that landed."""
    landed = 0
    for number in numbers:
        root, log = tmp_path / f"store{number}", tmp_path / "log"
        linked(ladder, root, stage)
        code = kill_at_event(build(root, stage), log, root / stage, number)
        if code == 0:
            break
        assert code == -signal.SIGKILL, log.read_text()[-3000:]
        landed += 1
        completed(root, stage, ladder, log)
        shutil.rmtree(root)
    return landed


def test_claim_32_a_kill_at_a_file_event_loses_nothing(ladder, tmp_path):
    assert survive_events(ladder, tmp_path, "mid", [3, 12, 25, 40, 60, 80]) >= 4


@pytest.mark.soak
@pytest.mark.parametrize("stage", ["data", "mid", "evaluation-cft"])
def test_claim_32_a_kill_at_any_file_event_loses_nothing(ladder, tmp_path, stage):
    landed = survive_events(ladder, tmp_path, stage, range(1, 1000))
    print(f"\n{stage}: killed before each of {landed} file events")
    assert landed > 20


def sizes(ladder, stage, count):
    """Sizes within the stage's files, so that a write is cut in the middle of one of them."""
    (folder,) = [path for path in (ladder / stage).iterdir() if path.is_dir()]
    most = max(file.stat().st_size for file in folder.iterdir())
    chance = random.Random(stage)
    return [int(most * 10 ** chance.uniform(-3, 0)) for _ in range(count)]


def cut_writes(ladder, tmp_path, stage, count, fatal):
    for number, size in enumerate(sizes(ladder, stage, count)):
        root, log = tmp_path / f"store{number}", tmp_path / f"log{number}"
        linked(ladder, root, stage)
        code = finish(start(build(root, stage), log, limit_files(size, fatal)))
        assert code == (-signal.SIGXFSZ if fatal else CLEAN), (size, log.read_text()[-3000:])
        if not fatal:
            said = log.read_text()
            assert "Traceback" not in said and "cannot be written to" in said and "again" in said
        completed(root, stage, ladder, log)


@pytest.mark.parametrize("stage", ["mid", "data"])
def test_claim_32_a_kill_in_the_middle_of_a_write_leaves_nothing_half_written(
    ladder, tmp_path, stage
):
    cut_writes(ladder, tmp_path, stage, 3, fatal=True)


@pytest.mark.parametrize("stage", ["mid", "data", "evaluation-cft"])
def test_a_full_disk_is_one_clear_error_and_the_next_run_goes_on(ladder, tmp_path, stage):
    cut_writes(ladder, tmp_path, stage, 3, fatal=False)


@pytest.mark.soak
@pytest.mark.parametrize("fatal", [True, False])
@pytest.mark.parametrize("stage", STAGES)
def test_claim_32_writes_cut_at_thirty_places_lose_nothing(ladder, tmp_path, stage, fatal):
    cut_writes(ladder, tmp_path, stage, 30, fatal)


def hashes(root):
    """What lies in a store, evaluations (which hold their wall time) aside."""
    return {
        f"{folder.parent.name}/{folder.name}": Store(root)
        .load(*folder.parts[-2:])
        .manifest["sha256"]
        for folder in root.glob("*/*")
        if folder.is_dir() and not folder.suffix and not folder.parent.name.startswith("evaluation")
    }


@pytest.mark.soak
def test_claim_32_killed_notebooks_end_with_the_same_artifacts_and_a_whole_manifest(tmp_path):
    def reproduce(name):
        command = [sys.executable, "-m", "diffgr2lib.reproduce", "--preset", "smoke", "--only"]
        environment = os.environ | {
            "DIFFGR2_ARTIFACTS": str(tmp_path / name),
            "PYTHONPATH": str(ROOT),
        }
        return subprocess.Popen(
            [*command, "01,02", "--out", str(tmp_path / f"figures-{name}")],
            cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    began = time.monotonic()
    assert reproduce("whole").wait(1800) == 0
    usual, chance, landed = time.monotonic() - began, random.Random(0), 0
    for kind in SIGNALS:
        process = reproduce("broken")
        try:
            process.wait(chance.uniform(0.2, 0.9) * usual)
        except subprocess.TimeoutExpired:
            process.send_signal(kind)
            landed += process.wait(600) != 0
    assert reproduce("broken").wait(1800) == 0
    assert hashes(tmp_path / "broken") == hashes(tmp_path / "whole")
    manifests = [tmp_path / f"figures-{name}" / "manifest.json" for name in ("broken", "whole")]
    assert len({tuple(json.loads(path.read_text())) for path in manifests}) == 1
    print(f"\nreproduce: {landed} kills")
