"""Two processes train as one does: same curve, same checkpoint, same files, and no deadlock."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType

from diffgr2lib.artifacts import Store
from diffgr2lib.errors import ModelError
from diffgr2lib.onpolicy import rollout
from diffgr2lib.train.loop import fit
from tests.survival.harness import (
    CLEAN,
    TINY,
    build,
    finish,
    limit_files,
    linked,
    result,
    stages,
    start,
)

ROOT = Path(__file__).resolve().parents[2]
CLOSE = 1e-5


def fork_group(work, tmp_path, count=2, prepare=None):
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

    return [
        start(lambda rank=rank: member(rank), tmp_path / f"log{rank}", prepare)
        for rank in range(count)
    ]


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


@pytest.mark.parametrize("stage", ["sft", "cft", "opd", "rl"])
def test_claim_11_two_processes_give_the_loss_curve_of_one(ladder, tmp_path, stage):
    root = linked(ladder, tmp_path / "store", stage)
    for child in fork_group(build(root, stage), tmp_path):
        assert finish(child) == 0, logs(tmp_path)
    same_curve(root, ladder, stage)


@pytest.mark.soak
@pytest.mark.parametrize("stage", ["mid", "ar"])
def test_claim_11_two_processes_give_the_other_loss_curves_of_one(ladder, tmp_path, stage):
    test_claim_11_two_processes_give_the_loss_curve_of_one(ladder, tmp_path, stage)


@pytest.mark.parametrize(("stage", "count"), [("data", 2), ("evaluation-cft", 2)])
def test_data_and_evaluations_of_several_processes_have_the_bytes_of_one(
    ladder, tmp_path, stage, count
):
    root = linked(ladder, tmp_path / "store", stage)
    for child in fork_group(build(root, stage), tmp_path, count):
        assert finish(child) == 0, logs(tmp_path)
    assert result(root, stage) == result(ladder, stage)


@pytest.mark.soak
@pytest.mark.parametrize("stage", ["cft", "opd", "rl", "evaluation-cft"])
def test_three_processes_give_what_one_gives(ladder, tmp_path, stage):
    root = linked(ladder, tmp_path / "store", stage)
    for child in fork_group(build(root, stage), tmp_path, 3):
        assert finish(child) == 0, logs(tmp_path)
    if stage.startswith("evaluation"):
        assert result(root, stage) == result(ladder, stage)
    else:
        same_curve(root, ladder, stage)


def shares(root, log):
    """What each process itself decoded, of a rollout and of an evaluation."""

    def work():
        decode, seen = rollout.decode_blocks, []
        rollout.decode_blocks = lambda policy, prompt, *rest, **named: (
            seen.append(len(prompt)) or decode(policy, prompt, *rest, **named)
        )
        made = stages(root)
        policy = made.policy("cft")
        prompts = [[5, 6, 7], [5, 6, 8], [5, 6, 9]]
        found = rollout.roll_out(policy, prompts, 2, replace(TINY.decode, temperature=1.0), [0])
        log.with_name(f"share{os.environ.get('RANK', 'one')}").write_text(
            json.dumps([seen, [one.tokens for one in found]])
        )

    return work


def test_rollouts_are_shared_out_by_whole_groups_and_gathered_in_order(ladder, tmp_path):
    log = tmp_path / "log"
    assert finish(start(shares(ladder, log), log)) == 0, log.read_text()
    for child in fork_group(shares(ladder, log), tmp_path):
        assert finish(child) == 0, logs(tmp_path)
    one, first, second = (
        json.loads((tmp_path / f"share{name}").read_text()) for name in ("one", 0, 1)
    )
    assert (one[0], first[0], second[0]) == ([6], [2], [4])
    assert one[1] == first[1] == second[1] and len(one[1]) == 6


def test_an_error_of_one_process_ends_the_others(ladder, tmp_path):
    root = linked(ladder, tmp_path / "store", "cft")
    full = limit_files(5000, fatal=False)
    children = fork_group(build(root, "cft"), tmp_path, prepare=full)
    assert [finish(child) for child in children][0] == CLEAN, logs(tmp_path)
    assert "cannot be written to" in (tmp_path / "log0").read_text()
    for child in fork_group(build(root, "cft"), tmp_path):
        assert finish(child) == 0, logs(tmp_path)
    same_curve(root, ladder, "cft")


def test_a_launch_that_shards_the_model_is_refused(ladder, tmp_path, monkeypatch):
    policy = stages(ladder).policy("cft")
    monkeypatch.setattr(Accelerator, "distributed_type", DistributedType.FSDP)
    with pytest.raises(ModelError, match="keeps the whole model"):
        fit(policy, None, TINY.cft, tmp_path, "cft")


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_claim_32_a_run_goes_on_with_another_number_of_processes(ladder, tmp_path, before, after):
    root = linked(ladder, tmp_path / "store", "cft")
    children = fork_group(build(root, "cft"), tmp_path, before)
    while not list((root / "cft").glob("*.work/step-*")):
        time.sleep(0.002)
    for child in children:
        os.kill(child, signal.SIGKILL)
    assert [finish(child) for child in children] == [-signal.SIGKILL] * before
    assert list((root / "cft").glob("*.work/step-*"))
    for child in fork_group(build(root, "cft"), tmp_path, after):
        assert finish(child) == 0, logs(tmp_path)
    same_curve(root, ladder, "cft")


@pytest.mark.soak
def test_claim_11_accelerate_launch_trains_the_ladder_on_two_processes(tmp_path):
    launch = ["accelerate.commands.launch", "--num_processes", "2", "--num_machines", "1", "--cpu"]
    launch += ["--mixed_precision", "no", "--dynamo_backend", "no", "-m"]
    for name, module in (("one", []), ("two", launch)):
        command = [sys.executable, "-m", *module, "diffgr2lib.train", "rl", "--preset", "smoke"]
        settings = os.environ | {"DIFFGR2_ARTIFACTS": str(tmp_path / name), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, done.stderr[-3000:]
    for stage in ("mid", "sft", "cft", "opd", "rl"):
        same_curve(tmp_path / "two", tmp_path / "one", stage)
