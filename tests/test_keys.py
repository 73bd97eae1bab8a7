"""A stage's key changes when, and only when, what the stage depends on changes."""

import ast
import dataclasses
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import diffgr2lib
from diffgr2lib import provenance, stages
from diffgr2lib.artifacts import Artifact
from diffgr2lib.config import StageTrain
from diffgr2lib.errors import ConfigError
from diffgr2lib.evaluate.run import Evaluation
from diffgr2lib.presets import PRESETS
from diffgr2lib.recipes import RECIPES
from diffgr2lib.stages import DATA_MODULES, ON_POLICY, READINGS, TRAIN_MODULES, Stages

PACKAGE = Path(diffgr2lib.__file__).parent
SMOKE = PRESETS["smoke"]
EVALUATIONS = {f"evaluation-{system}": stage for system, stage in READINGS.items()}
EVERYTHING = {"data", *RECIPES, *EVALUATIONS}


class Recorder:
    """A store that builds nothing and remembers the keys it was asked for."""

    def __init__(self):
        self.keys = {}

    def get_or_build(self, stage, key, build, **rest):
        self.keys[stage] = key
        return Artifact(stage, key, Path("nowhere"), {}, True)


def keys(preset, seed=0):
    store = Recorder()
    made = Stages(preset, store, seed)
    for stage in RECIPES:
        made.trained(stage)
    for system in READINGS:
        made.evaluation(system, SMOKE.decode)
    return store.keys


@pytest.fixture(autouse=True)
def nothing_is_read(monkeypatch):
    monkeypatch.setattr(Evaluation, "read", lambda path: None)
    monkeypatch.setattr(stages, "fingerprint", lambda path: {"content of": path})


def below(*stages):
    """These stages, all that start from them, and the evaluations of any of them."""
    found = set(stages)
    for _ in RECIPES:
        found |= {name for name, recipe in RECIPES.items() if recipe.parent in found}
        found |= {"opd"} if SMOKE.distillation.teacher in found else set()
    return found | {name for name, stage in EVALUATIONS.items() if stage in found}


CAUSAL = {name for name in EVALUATIONS if name.endswith("_causal")}
DEPENDS = {  # section of a preset -> what hangs on it
    "name": set(),
    "data": EVERYTHING,
    "model": EVERYTHING - {"data"},
    **{name: below(name) for name, recipe in RECIPES.items() if recipe.train == name},
    "cft": below("cft", "cft_causal"),
    "distillation": below("opd"),
    "reinforcement": below("ar", "rl"),
    "decode": below("ar", "opd", "rl"),
    # how an AR model is read does not hang on it; that its evaluation's key does costs a rebuild
    "diffusion": below("cft") | (set(EVALUATIONS) - CAUSAL),
    "causal": below("cft_causal") | CAUSAL,
    "evaluate": set(),  # batches, sweeps and reports
    "quick": set(),
}


def others(value, hint):
    """Other values that a field may have."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    if isinstance(value, float):
        return [value * 0.9 + 0.01, value + 0.5]
    if isinstance(value, tuple):
        return [(*value, 0.3)]
    return [one for one in get_args(hint) if one != value] or [f"{value}x"]


def changed():
    """Every field of every section: its name, what hangs on it, presets that differ in it alone."""
    for section in dataclasses.fields(SMOKE):
        part = getattr(SMOKE, section.name)
        if not dataclasses.is_dataclass(part):
            other = "other" if isinstance(part, str) else not part
            yield section.name, section.name, [dataclasses.replace(SMOKE, **{section.name: other})]
            continue
        hints = get_type_hints(type(part))
        for field in dataclasses.fields(part):
            presets = []
            for value in others(getattr(part, field.name), hints[field.name]):
                try:
                    new = dataclasses.replace(part, **{field.name: value})
                except ConfigError:
                    continue
                presets.append(dataclasses.replace(SMOKE, **{section.name: new}))
            yield section.name, f"{section.name}.{field.name}", presets


def test_each_field_of_a_preset_changes_the_keys_that_hang_on_it_and_no_other():
    base, unchanged = keys(SMOKE), []
    assert set(base) == EVERYTHING and set(DEPENDS) == {f.name for f in dataclasses.fields(SMOKE)}
    tried = 0
    for section, name, presets in changed():
        unchanged += [] if presets else [name]
        for preset in presets:
            found = keys(preset)
            assert {stage for stage in found if found[stage] != base[stage]} == DEPENDS[section], (
                name
            )
            tried += 1
    assert tried > 150
    # each of these two is refused alone: a co-loss asks for causal context
    assert unchanged == ["diffusion.ar_weight", "causal.context"]


def test_the_seed_changes_every_key_but_that_of_the_data():
    base, other = keys(SMOKE), keys(SMOKE, seed=1)
    assert {stage for stage in base if base[stage] != other[stage]} == EVERYTHING - {"data"}
    assert len(set(base.values())) == len(base)


def test_every_stage_has_a_section_of_its_own_kind():
    assert all(isinstance(getattr(SMOKE, recipe.train), StageTrain) for recipe in RECIPES.values())


LEARNT = {
    "checkpoint",
    "columns",
    "gguf",
    "initialise",
    "masks",
    "policy",
}  # of model/, beside cache.py


def hangs_on(module):
    """What should be built anew after an edit of a module, by its path in the package."""
    folder, name = (module.parts[0], module.stem) if len(module.parts) > 1 else ("", module.stem)
    if name == "__main__":  # a command
        return set()
    if folder == "data" or name == "errors":
        return EVERYTHING
    if folder in ("text", "train") or (folder == "model" and name in LEARNT):
        return EVERYTHING - {"data"}
    on_policy = below("ar", "opd", "rl")
    if folder == "decode" or (folder, name) in (("model", "cache"), ("evaluate", "run")):
        return on_policy | set(EVALUATIONS)
    if (folder, name) == ("model", "__init__"):
        return set(EVALUATIONS)
    return on_policy if folder == "onpolicy" or (folder, name) == ("", "recipes") else set()


def test_each_module_changes_the_keys_of_the_stages_that_use_it_and_no_other(monkeypatch):
    provenance._module_hash.cache_clear()
    base, read = keys(SMOKE), Path.read_bytes
    for path in sorted(PACKAGE.rglob("*.py")):
        edited = lambda self, path=path: read(self) + (b"# edited" if self == path else b"")  # noqa: E731
        monkeypatch.setattr(Path, "read_bytes", edited)
        provenance._module_hash.cache_clear()
        found = keys(SMOKE)
        module = path.relative_to(PACKAGE)
        assert {stage for stage in found if found[stage] != base[stage]} == hangs_on(module), module
    monkeypatch.undo()
    provenance._module_hash.cache_clear()


def imports(module):
    """The kit's modules that a module imports, type checking aside."""
    path = PACKAGE.parent / Path(*module.split(".")).with_suffix(".py")
    tree = ast.parse(path.read_text())
    typing = [
        n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)
    ]
    skipped = {id(child) for node in typing for child in ast.walk(node)}
    found = [
        name
        for n in ast.walk(tree)
        if isinstance(n, ast.ImportFrom) and n.module and id(n) not in skipped
        for name in (n.module, *(f"{n.module}.{one.name}" for one in n.names))
    ]
    return {name for name in found if name.startswith("diffgr2lib.") and is_module(name)}


def is_module(name):
    return (PACKAGE.parent / Path(*name.split(".")).with_suffix(".py")).exists()


def reached(*modules):
    """A package or module, and all that it imports, directly or not."""
    todo, seen = [], set()
    for name in modules:
        path = PACKAGE / name.replace(".", "/")
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
        todo += [
            f"diffgr2lib.{'.'.join(f.relative_to(PACKAGE).with_suffix('').parts)}" for f in files
        ]
    while todo:
        module = todo.pop()
        if module not in seen and not module.endswith(("__init__", "__main__")):
            seen.add(module)
            todo += imports(module)
    return {name.removeprefix("diffgr2lib.") for name in seen}


def covered(names, modules):
    return {name for name in names if any(name == m or name.startswith(f"{m}.") for m in modules)}


def test_what_a_stage_imports_is_in_its_key_or_cannot_change_its_weights():
    data = reached("data")
    assert data - covered(data, DATA_MODULES) == {"config"}
    training = reached(*TRAIN_MODULES)
    # the data stage's key holds data; the cache serves decoding only, provenance only hashes
    assert training - covered(training, (*TRAIN_MODULES, *DATA_MODULES)) == {
        "config",
        "model.cache",
        "provenance",
    }
    policy = reached("onpolicy", "decode")
    modules = (*TRAIN_MODULES, *DATA_MODULES, *ON_POLICY)
    # who decodes which row changes no row
    assert policy - covered(policy, modules) == {"config", "processes"}
