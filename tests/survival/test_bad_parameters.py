"""Whatever value a parameter or a setting has: it is taken, or refused with one ConfigError."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffgr2lib import config
from diffgr2lib.artifacts import Store
from diffgr2lib.config import Preset
from diffgr2lib.errors import ConfigError
from diffgr2lib.presets import PRESETS, preset
from diffgr2lib.run import PARAMETERS, check_parameters, start_run
from diffgr2lib.stages import Stages

GOOD = {"preset": "smoke", "seeds": [0], "device": "cpu", "out_dir": "", "force": False}
SECTIONS = [
    config.DataConfig, config.ModelConfig, config.StageTrain, config.DiffusionConfig,
    config.DecodeConfig, config.Distillation, config.Reinforcement, config.EvalConfig,
]  # fmt: skip

plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["cpu:", "cuda:99", "cuda:", "9" * 5000, "\0", "x" * 5000, "٣", 10**30, -1])
)
anything = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)  # fmt: skip


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from(PARAMETERS), anything)
def test_a_parameter_of_any_type_is_taken_or_refused(name, value):
    try:
        found = check_parameters({**GOOD, name: value})
    except ConfigError as error:
        assert name in str(error) or name == "preset"
    else:
        assert found.preset.name in PRESETS and found.device == "cpu"
        assert all(0 <= seed < 10**9 for seed in found.seeds) and type(found.force) is bool


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=12), anything)
def test_a_parameter_of_any_other_name_is_refused(name, value):
    if name not in PARAMETERS:
        with pytest.raises(ConfigError, match="no parameter"):
            check_parameters({**GOOD, name: value})


@settings(max_examples=1500, deadline=None)
@given(st.data())
def test_a_setting_of_any_type_is_taken_or_refused(data):
    section = data.draw(st.sampled_from(SECTIONS))
    names = [field.name for field in dataclasses.fields(section)]
    values = {"steps": 4} if section is config.StageTrain else {}
    values |= data.draw(st.dictionaries(st.sampled_from(names), anything, max_size=3))
    try:
        made = section(**values)
    except ConfigError as error:
        assert any(name in str(error) for name in values)
    else:
        assert all(getattr(made, name) == value for name, value in values.items())


@settings(max_examples=200, deadline=None)
@given(anything)
def test_a_preset_of_any_name_or_with_any_section_is_taken_or_refused(value):
    with pytest.raises(ConfigError, match="choose one of"):
        preset(value)
    with pytest.raises(ConfigError, match=r"Preset\.model"):
        dataclasses.replace(PRESETS["smoke"], model=value)
    assert isinstance(preset("smoke"), Preset)


@pytest.mark.parametrize(
    ("seed", "device"), [(-1, "cpu"), (10**9, "cpu"), (0, "cpu:"), (0, "tpu"), (0, "cuda:99")]
)
def test_stages_refuse_a_seed_or_device_before_any_work(tmp_path, seed, device):
    with pytest.raises(ConfigError, match="seed is|device is"):
        Stages(PRESETS["smoke"], Store(tmp_path), seed, device)


def test_an_output_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="out_dir"):
        start_run({**GOOD, "out_dir": str(tmp_path / "file" / "inside")}, "01_data")
