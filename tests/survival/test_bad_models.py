"""Checkpoints: only safetensors and JSON are read, damaged or foreign ones are named, no code runs."""

import ast
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import diffgr2lib
from diffgr2lib.artifacts import Store
from diffgr2lib.errors import ArtifactError, ModelError
from diffgr2lib.model.checkpoint import load, load_checkpoint, save
from diffgr2lib.model.policy import build_policy
from diffgr2lib.stages import Stages
from diffgr2lib.text.tokenizer import train_tokenizer
from tests.survival.harness import TINY, build, finish, linked, start
from tests.survival.test_hostile_text import Catalogue, Grammar, made

PACKAGE = Path(diffgr2lib.__file__).parent
FORBIDDEN = (
    "pickle",
    "joblib",
    "marshal",
    "shelve",
    "yaml",
    "requests",
    "urllib",
    "http",
    "socket",
)


def test_no_module_can_read_a_pickle_run_code_or_reach_the_network():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [one.name for one in node.names] + [getattr(node, "module", None) or ""]
                assert not {name.split(".")[0] for name in names} & set(FORBIDDEN), path
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            assert called not in ("torch.load", "eval", "exec", "np.load", "pd.read_pickle"), path
            given = {one.arg: ast.unparse(one.value) for one in node.keywords}
            assert given.get("trust_remote_code", "False") == "False", path
            assert given.get("allow_pickle", "False") == "False", path
            if called.endswith(".from_pretrained") and "gguf_file" not in given:
                assert given["trust_remote_code"] == "False", path
                assert "CausalLM" not in called or given["use_safetensors"] == "True", path


def policy(texts=("word",)):
    example = made(list(texts))
    items = (*(candidate.item for candidate in example.candidates), *example.history)
    catalogue = Catalogue(tuple(sorted(items, key=lambda item: item.id)), (6, 6))
    return build_policy(train_tokenizer(catalogue, Grammar()), 16, 1, 1, 32, 128, seed=0)


@pytest.fixture
def saved(tmp_path):
    save(policy(), tmp_path / "saved")
    return tmp_path / "saved"


def test_a_checkpoint_that_holds_only_a_pickle_is_refused(saved):
    torch.save(policy().model.state_dict(), saved / "pytorch_model.bin")
    (saved / "model.safetensors").unlink()
    for read in (load, lambda folder: load_checkpoint(str(folder), [])):
        with pytest.raises(ModelError, match="safetensors"):
            read(saved)


def test_code_in_a_checkpoint_is_never_run(saved):
    code = "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\nclass T: pass\n"
    (saved / "evil.py").write_text(code)
    for name in ("config.json", "tokenizer_config.json"):
        data = json.loads((saved / name).read_text())
        data["auto_map"] = {
            "AutoModelForCausalLM": "evil.T", "AutoConfig": "evil.T", "AutoTokenizer": ["evil.T"] * 2
        }  # fmt: skip
        (saved / name).write_text(json.dumps(data))
    try:
        load(saved)
    except ModelError:
        pass
    assert not list(saved.rglob("ran"))


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "diffusion_config.json", "tokenizer.json"]
)
@pytest.mark.parametrize("kept", [0, 0.5, 0.99])
def test_a_truncated_file_of_a_policy_is_one_model_error(saved, name, kept):
    data = (saved / name).read_bytes()
    (saved / name).write_bytes(data[: int(kept * len(data))])
    with pytest.raises(ModelError, match=str(saved)):
        load(saved)


def test_a_tokenizer_or_mask_of_another_vocabulary_is_refused(saved):
    save(policy([f"many words {n}" for n in range(18)]), saved.parent / "other")
    shutil.copy(saved.parent / "other" / "tokenizer.json", saved / "tokenizer.json")
    with pytest.raises(ModelError, match="another vocabulary"):
        load(saved)


def test_weights_of_another_vocabulary_are_refused(saved):
    save(policy([f"many words {n}" for n in range(18)]), saved.parent / "other")
    shutil.copy(saved.parent / "other" / "model.safetensors", saved / "model.safetensors")
    with pytest.raises(ModelError):
        load(saved)


def test_a_prompt_longer_than_the_models_positions_stops_a_stage_before_its_first_step(tmp_path):
    short = replace(TINY, model=replace(TINY.model, max_positions=64))
    with pytest.raises(ModelError, match="exceed the model's 64 positions"):
        Stages(short, Store(tmp_path)).trained("mid")
    assert not list(tmp_path.glob("mid/*.work/step-*"))


@pytest.mark.parametrize("name", ["state.safetensors", "progress.json"])
@pytest.mark.parametrize("place", [0.0, 0.5, 0.999])
def test_a_damaged_checkpoint_is_named_with_the_command_that_mends_it(
    ladder, tmp_path, monkeypatch, name, place
):
    root = linked(ladder, tmp_path / "store", "mid")
    stages = Stages(TINY, Store(root))
    with monkeypatch.context() as patch:  # trained, and killed before anything is saved
        patch.setattr("diffgr2lib.stages.save", lambda policy, out: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            stages.trained("mid")
    (file,) = root.glob(f"mid/*.work/step-*/{name}")
    data = bytearray(file.read_bytes())
    data[int(place * (len(data) - 1))] ^= 4
    file.write_bytes(bytes(data))
    with pytest.raises(ArtifactError, match="rm -r") as caught:
        stages.trained("mid")
    shutil.rmtree(str(caught.value).split("rm -r '")[1].split("'")[0])
    assert finish(start(build(root, "mid"), tmp_path / "log")) == 0
