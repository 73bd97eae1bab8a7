"""Nothing leaves the machine unasked, and nothing is written outside the folders that were named."""

import os
import signal
import socket
import sys

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from diffgr2lib.artifacts import Store
from diffgr2lib.errors import ConfigError, ModelError
from diffgr2lib.model.checkpoint import load_checkpoint
from diffgr2lib.presets import PRESETS
from diffgr2lib.recipes import RECIPES
from diffgr2lib.reproduce import choose, notebooks_folder
from diffgr2lib.run import check_parameters, start_run
from diffgr2lib.stages import READINGS, Stages
from tests.survival.harness import CLEAN, build, finish, linked, result, start

GOOD = {"preset": "smoke", "seeds": [0], "device": "cpu", "out_dir": "", "force": False}
NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.sendmsg")


def offline():
    """A child dies by a signal as soon as it asks for another host."""

    def refuse(event, arguments):
        if event in NETWORK:
            os.kill(os.getpid(), signal.SIGUSR1)

    sys.addaudithook(refuse)


def test_the_audit_sees_a_connection(tmp_path):
    child = start(lambda: socket.create_connection(("192.0.2.1", 80)), tmp_path / "log", offline)
    assert finish(child) == -signal.SIGUSR1


@pytest.mark.parametrize("stage", ["data", "mid", "cft", "rl", "evaluation-cft"])
def test_no_stage_asks_the_network(ladder, tmp_path, stage):
    root = linked(ladder, tmp_path / "store", stage)
    assert finish(start(build(root, stage), tmp_path / "log", offline)) == 0
    assert result(root, stage) == result(ladder, stage)


def test_a_checkpoint_that_is_not_here_is_an_error_and_not_a_download(tmp_path):
    def work():
        os.environ.pop("HF_HUB_OFFLINE", None)
        load_checkpoint("somebody/some-model", [])

    assert finish(start(work, tmp_path / "log", offline)) == CLEAN
    said = (tmp_path / "log").read_text()
    assert said.startswith(ModelError.__name__) and "allow downloads" in said


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=12) | st.sampled_from(["../x", "/etc/passwd", "..", "cft/../..", "~"]))
def test_a_name_that_is_no_name_never_becomes_a_path(tmp_path_factory, name):
    assume(name not in {*PRESETS, *RECIPES, *READINGS} and not name.strip().isdigit())
    stages = Stages(PRESETS["smoke"], Store(tmp_path_factory.getbasetemp() / "never"))
    for ask in (
        stages.trained,
        stages.policy,
        lambda system: stages.evaluation(system, stages.preset.decode),
        lambda preset: check_parameters({**GOOD, "preset": preset}),
        lambda numbers: choose(notebooks_folder(), numbers or "?"),
    ):
        with pytest.raises(ConfigError):
            ask(name)
    assert not stages.store.root.exists()


@pytest.mark.parametrize("named", ["out", "a/../out", "./out/", "out/../../work/out"])
def test_a_notebook_writes_into_its_output_folder_alone(tmp_path, monkeypatch, named):
    (tmp_path / "work" / "a").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("DIFFGR2_ARTIFACTS", str(tmp_path / "store"))
    run = start_run({**GOOD, "out_dir": named}, "01_data")
    frame = pd.DataFrame({"title": ["../../x", "<b>", "\x00"]})
    run.table(frame, "table1_datasets")
    run.figure(plt.figure(), "frontier")
    run.finish()
    plt.close("all")
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.parent for path in files} == {tmp_path / "work" / "out"}
    assert {path.name.split(".")[0] for path in files} == {
        "table1_datasets",
        "frontier",
        "manifest",
    }
