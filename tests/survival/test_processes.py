"""Two processes train as one does: same curve, same checkpoint, same files, and no deadlock."""

import json
import os
import random
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from accelerate.state import AcceleratorState

from diffgr2lib.artifacts import Store
from tests.survival.harness import build, finish, kill_after, linked, result, start

ROOT = Path(__file__).resolve().parents[2]
CLOSE = 1e-5


def fork_group(work, tmp_path, count=2):
    """Fork `count` processes with the environment that accelerate's launcher gives them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def member(rank):
        os.environ |= {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count),
            "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "ACCELERATE_USE_CPU": "true", "GLOO_SOCKET_IFNAME": "lo",
        }  # fmt: skip
        AcceleratorState._reset_state(reset_partial_state=True)  # the parent's, of one process
        work()

    return [start(lambda rank=rank: member(rank), tmp_path / f"log{rank}") for rank in range(count)]


def history(root, stage):
    (folder,) = [path for path in (root / stage).iterdir() if path.is_dir() and not path.suffix]
    Store(root).load(stage, folder.name)
    return json.loads((folder / "history.json").read_text())


def same_curve(root, ladder, stage):
    one, two = history(ladder, stage), history(root, stage)
    assert [record["step"] for record in one] == [record["step"] for record in two]
    for first, second in zip(one, two, strict=True):
        assert abs(first["loss"] - second["loss"]) <= CLOSE, (stage, first, second)


def logs(tmp_path):
    return "\n".join(path.read_text() for path in tmp_path.glob("log*"))[-4000:]


@pytest.mark.parametrize("stage", ["sft", "cft"])
def test_claim_11_two_processes_give_the_loss_curve_of_one(ladder, tmp_path, stage):
    root = linked(ladder, tmp_path / "store", stage)
    for child in fork_group(build(root, stage), tmp_path):
        assert finish(child) == 0, logs(tmp_path)
    same_curve(root, ladder, stage)


@pytest.mark.soak
@pytest.mark.parametrize("stage", ["mid", "ar", "opd", "rl"])
def test_claim_11_two_processes_give_the_loss_curve_of_one_on_policy(ladder, tmp_path, stage):
    test_claim_11_two_processes_give_the_loss_curve_of_one(ladder, tmp_path, stage)


@pytest.mark.soak
@pytest.mark.parametrize("stage", ["data", "evaluation-cft"])
def test_what_one_process_builds_alone_the_others_wait_for(ladder, tmp_path, stage):
    root = linked(ladder, tmp_path / "store", stage)
    for child in fork_group(build(root, stage), tmp_path, 3):
        assert finish(child) == 0, logs(tmp_path)
    assert result(root, stage) == result(ladder, stage)


def test_a_run_of_one_process_goes_on_as_two(ladder, tmp_path):
    root, chance = linked(ladder, tmp_path / "store", "cft"), random.Random(0)
    while not list((root / "cft").glob("*.work/step-*")):
        shutil.rmtree(root / "cft", ignore_errors=True)
        kill_after(build(root, "cft"), tmp_path / "log", chance.uniform(0.2, 2))
    for child in fork_group(build(root, "cft"), tmp_path):
        assert finish(child) == 0, logs(tmp_path)
    same_curve(root, ladder, "cft")


@pytest.mark.soak
def test_claim_11_accelerate_launch_trains_the_ladder_on_two_processes(tmp_path):
    launch = ["accelerate.commands.launch", "--num_processes", "2", "--num_machines", "1", "--cpu"]
    launch += ["--mixed_precision", "no", "--dynamo_backend", "no", "-m"]
    for name, module in (("one", []), ("two", launch)):
        command = [sys.executable, "-m", *module, "diffgr2lib.train", "cft", "--preset", "smoke"]
        settings = os.environ | {"DIFFGR2_ARTIFACTS": str(tmp_path / name), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, done.stderr[-3000:]
    for stage in ("mid", "sft", "cft"):
        same_curve(tmp_path / "two", tmp_path / "one", stage)
