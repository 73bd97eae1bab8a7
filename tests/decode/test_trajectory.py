"""Trajectories survive JSON, and rebuild the canvases of their steps."""

import json

import pytest

from diffgr2lib.decode import Trajectory, decode_blocks
from diffgr2lib.errors import ModelError
from tests.tiny import MakePolicy, ragged_prompts, settings


def test_json_round_trip(make_policy: MakePolicy) -> None:
    out = decode_blocks(make_policy(4, end=7), *ragged_prompts(), settings(tau=0.4))
    for trajectory in out.trajectories:
        text = json.dumps(trajectory.to_json())
        assert Trajectory.from_json(json.loads(text)) == trajectory
    damaged = out.trajectories[0].to_json()
    del damaged["nfe"]
    with pytest.raises(ModelError, match="nfe"):
        Trajectory.from_json(damaged)


def test_canvas_and_block() -> None:
    trajectory = Trajectory(
        prompt=(5,),
        tokens=(10, 11, 12, 9),
        reveal_step=(1, 0, 0, -1),
        confidence=(0.5,) * 4,
        log_probability=(-1.0,) * 4,
        block_size=2,
        temperature=0.0,
        length=3,
        nfe=4,
    )
    assert trajectory.canvas(0, 9) == (9, 9, 9, 9)
    assert trajectory.canvas(1, 9) == (9, 11, 12, 9)
    assert trajectory.canvas(2, 9) == (10, 11, 12, 9)
    assert trajectory.block == (0, 0, 1, 1)
