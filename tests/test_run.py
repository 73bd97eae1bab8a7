"""Notebook parameters: wrong names and types are refused with a sentence that says how to mend it."""

import pytest

from diffgr2lib.artifacts import Store
from diffgr2lib.errors import ConfigError
from diffgr2lib.run import Run, check_parameters, injected

GOOD = {"preset": "smoke", "seeds": [0], "device": "cpu", "out_dir": "", "force": False}


def test_good_parameters_pass(tmp_path):
    found = check_parameters({**GOOD, "out_dir": str(tmp_path), "seeds": "0, 2"})
    assert found.preset.name == "smoke" and found.seeds == (0, 2) and found.out_dir == tmp_path


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("preset", "toyy", "Did you mean 'toy'"),
        ("preset", 3, "choose one of"),
        ("seeds", [0, 0], "each once"),
        ("seeds", [], "at least one"),
        ("seeds", [1.5], "whole numbers"),
        ("seeds", True, "whole numbers"),
        ("seeds", "-1", "whole numbers"),
        ("device", "true", "'cpu'"),
        ("device", True, "'cpu'"),
        ("device", "cuda:x", "'cpu'"),
        ("force", "yes", "True or False"),
        ("force", 1, "True or False"),
        ("out_dir", None, "folder"),
    ],
)
def test_a_wrong_value_is_refused(name, value, word):
    with pytest.raises(ConfigError, match=word):
        check_parameters({**GOOD, name: value})


def test_a_misspelt_parameter_is_refused_with_the_nearest_name():
    namespace = {**GOOD, "sedes": [1], "In": ["", "# Parameters\nsedes = [1]\n"]}
    with pytest.raises(ConfigError, match="Did you mean 'seeds'"):
        check_parameters(injected(namespace))


def test_a_variable_of_the_user_is_no_parameter():
    assert check_parameters(injected({**GOOD, "table": 1, "In": ["", "table = 1"]}))


def test_out_dir_that_is_a_file_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ConfigError, match="is a file"):
        check_parameters({**GOOD, "out_dir": str(file)})


def test_a_kill_while_the_manifest_is_written_leaves_the_old_one_whole(tmp_path, monkeypatch):
    found = check_parameters({**GOOD, "out_dir": str(tmp_path)})
    run = Run("01_data", found, Store(tmp_path / "store"))
    before = run.finish().read_bytes()

    def half(path, text, **options):
        path.write_bytes(text.encode()[:100])
        raise KeyboardInterrupt

    monkeypatch.setattr(type(tmp_path), "write_text", half)
    with pytest.raises(KeyboardInterrupt):
        run.finish()
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]
    assert (tmp_path / "manifest.json").read_bytes() == before
