"""The study: every departure is a cell of its own, and differs from its base in one thing."""

from pathlib import Path

import pytest

from diffgr2lib.ablate.__main__ import main, part
from diffgr2lib.ablate.cells import START, cells, settings
from diffgr2lib.ablate.decoders import CURVES, decoders, wanted
from diffgr2lib.ablate.study import Study
from diffgr2lib.artifacts import Artifact
from diffgr2lib.errors import ConfigError
from diffgr2lib.evaluate.run import Evaluation
from diffgr2lib.presets import PRESETS
from diffgr2lib.stages import Stages

SMOKE = PRESETS["smoke"]


class Recorder:
    """A store that builds nothing and remembers what it was asked for."""

    def __init__(self):
        self.asked = {}

    def get_or_build(self, stage, key, build, **rest):
        self.asked[key] = (stage, rest)
        return Artifact(stage, key, Path("nowhere"), {}, True)


@pytest.fixture
def study(monkeypatch):
    monkeypatch.setattr(Stages, "world", None)
    monkeypatch.setattr(Evaluation, "read", lambda path: None)
    return Study(Stages(SMOKE, Recorder(), 0))


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_parents_and_what_is_compared_come_first(name):
    seen = {START}
    for cell in cells(PRESETS[name]).values():
        assert cell.parent in seen
        assert cell.over in seen | {cell.name}
        seen.add(cell.name)
    assert {cell for cell, _ in decoders(PRESETS[name]).values()} | set(CURVES) <= seen


def test_every_cell_is_an_artifact_of_its_own(study):
    keys = {name: study.trained(name).key for name in study.cells}
    assert len(set(keys.values())) == len(keys) > 25


def test_a_departure_differs_from_its_base_in_one_setting(study):
    def flat(name):
        config = study.stages.store.asked[study.trained(name).key][1]["config"]
        return {
            (part, key): value
            for part, section in config.items()
            for key, value in (section.items() if isinstance(section, dict) else [("", section)])
        }

    for cell in study.cells.values():
        same_kind = study.cells[cell.over].recipe == cell.recipe
        if cell.name == cell.over or not same_kind or cell.parent != study.cells[cell.over].parent:
            continue
        own, base = flat(cell.name), flat(cell.over)
        assert len([key for key in own if own[key] != base.get(key)]) == 1, cell.name


def test_an_evaluation_has_its_cell_as_parent_and_its_settings_in_its_key(study):
    decode = wanted(SMOKE)[0][1]
    study.evaluation("CFT", decode)
    study.evaluation("CFT", decode, limit=3)
    found = [rest for stage, rest in study.stages.store.asked.values() if "evaluation" in stage]
    assert len(found) == 2
    assert all(one["parents"] == [study.trained("CFT").key] for one in found)


def test_an_unknown_cell_is_named(study):
    with pytest.raises(ConfigError, match="no cell 'CTF'"):
        study.trained("CTF")


def test_the_short_stages_are_those_of_the_settings(study):
    short = settings(SMOKE)
    for cell in study.cells.values():
        changed = study.changed(cell)
        assert changed.cft.steps == short.cft.steps and changed.opd == short.opd
        assert changed.sft == SMOKE.sft and changed.data == SMOKE.data


def test_parts_are_read_and_wrong_ones_refused(capsys):
    assert part("2/3") == (2, 3)
    for wrong in ("0/2", "3/2", "1", "a/b", ""):
        with pytest.raises(ConfigError, match="1/2"):
            part(wrong)
    assert main(["--preset", "smoke", "--part", "3/2"]) == 2
    assert main(["--preset", "smoke", "--seeds", "one"]) == 2
    assert "0,1,2" in capsys.readouterr().err
