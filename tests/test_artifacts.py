"""Claim 33 and the store's promises: whole or not at all, verified on every load, built once."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import time

import numpy as np
import pytest

from diffgr2lib import provenance
from diffgr2lib.artifacts import Store, seal, stage_key
from diffgr2lib.errors import ArtifactError
from diffgr2lib.provenance import git_state, project_root, source_hash


def build(out, work):
    (out / "weights.bin").write_bytes(bytes(range(256)))
    (out / "sub").mkdir()
    (out / "sub" / "log.json").write_text("[1]")
    return {"loss": 0.5}


def get(store, build=build, key="k1", **options):
    return store.get_or_build("stage", key, build, config={"a": 1}, seed=0, parents=[], **options)


def test_miss_then_hit(tmp_path, caplog):
    caplog.set_level("INFO", "diffgr2lib")
    store = Store(tmp_path)
    first, second = get(store), get(store)
    assert (first.hit, second.hit) == (False, True)
    assert second.manifest["metrics"] == {"loss": 0.5} and second.manifest["config"] == {"a": 1}
    assert [line.split()[0] for line in caplog.messages] == ["MISS", "DONE", "HIT"]


def damage_flip(folder):
    data = bytearray((folder / "weights.bin").read_bytes())
    data[7] ^= 1
    (folder / "weights.bin").write_bytes(bytes(data))


def damage_truncate(folder):
    (folder / "weights.bin").write_bytes(bytes(range(200)))


def damage_remove(folder):
    (folder / "sub" / "log.json").unlink()


def damage_add(folder):
    (folder / "stranger.bin").write_bytes(b"x")


def damage_manifest(folder):
    (folder / "manifest.json").write_text("{")


def rewrite(folder, **changes):
    path = folder / "manifest.json"
    changed = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(changed | {"seal": seal(changed)}))


def damage_format(folder):
    rewrite(folder, format=0)


def damage_foreign(folder):
    rewrite(folder, key="another")


def damage_metric(folder):
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"loss": 0.5', '"loss": 0.4'))


def damage_link(folder):
    (folder / "weights.bin").rename(folder.parent / "elsewhere.bin")
    (folder / "weights.bin").symlink_to(folder.parent / "elsewhere.bin")


def damage_pipe(folder):
    os.mkfifo(folder / "pipe")


def damage_all(folder):
    shutil.rmtree(folder)
    folder.write_text("no folder")


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (damage_flip, "weights.bin"),
        (damage_truncate, "weights.bin"),
        (damage_remove, "log.json"),
        (damage_add, "stranger.bin"),
        (damage_manifest, "manifest.json"),
        (damage_format, "format 0"),
        (damage_foreign, "another"),
        (damage_metric, "manifest.json is damaged"),
        (damage_link, "weights.bin is a link"),
        (damage_pipe, "pipe"),
        (damage_all, "manifest.json"),
    ],
)
def test_claim_33_a_damaged_artifact_is_named_refused_and_rebuilt(tmp_path, damage, word):
    store = Store(tmp_path)
    folder = get(store).path
    damage(folder)
    with pytest.raises(ArtifactError, match=word) as caught:
        get(store)
    assert f"`rm -r '{folder}'`" in str(caught.value)
    assert get(store, force=True).hit is False
    assert get(store).hit is True


def test_claim_33_a_manifest_with_any_bit_flipped_is_refused_or_says_the_same(tmp_path):
    store = Store(tmp_path)
    made = get(store)
    path = made.path / "manifest.json"
    whole, chance, refused = path.read_bytes(), random.Random(0), 0
    for place in [(n, chance.randrange(8)) for n in range(len(whole))]:
        data = bytearray(whole)
        data[place[0]] ^= 1 << place[1]
        path.write_bytes(bytes(data))
        try:
            assert get(store).manifest == made.manifest
        except ArtifactError as error:
            assert "manifest.json" in str(error) and "rm -r" in str(error)
            refused += 1
    assert refused > len(whole) / 2


def test_a_force_killed_halfway_leaves_no_half_artifact(tmp_path, monkeypatch):
    store = Store(tmp_path)
    folder = get(store).path

    def halfway(path):
        next(path.glob("*.bin")).unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr("diffgr2lib.files.shutil.rmtree", halfway)
    with pytest.raises(KeyboardInterrupt):
        get(store, force=True)
    monkeypatch.undo()
    assert not folder.exists() and get(store).hit is False
    assert {path.suffix for path in folder.parent.iterdir()} <= {"", ".lock"}


def test_a_failed_build_leaves_nothing_but_its_work(tmp_path):
    store = Store(tmp_path)

    def fail(out, work):
        (out / "half.bin").write_bytes(b"half")
        (work / "step").write_text("3")
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        get(store, fail)
    assert not (tmp_path / "stage" / "k1").exists()

    def resume(out, work):
        assert (work / "step").read_text() == "3" and not list(out.iterdir())
        return build(out, work)

    assert get(store, resume).hit is False
    assert not (tmp_path / "stage" / "k1.work").exists()


def slow(root):
    def build_slowly(out, work):
        with (root / "builds").open("a") as file:
            file.write("x")
        time.sleep(0.5)
        return build(out, work)

    get(Store(root), build_slowly)


def test_two_processes_build_once(tmp_path):
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=slow, args=(tmp_path,)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert (tmp_path / "builds").read_text() == "x"


def test_a_key_changes_with_each_thing_it_depends_on(tmp_path, monkeypatch):
    (tmp_path / "some_module.py").write_text("x = 1\n")
    (tmp_path / "other_module.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    base = {"stage": "s", "config": {"a": 1}, "seed": 0, "parents": ["p"]}
    base["modules"] = ["some_module"]
    keys = {stage_key(**base)}
    for name, value in [
        ("stage", "t"),
        ("config", {"a": 2}),
        ("seed", 1),
        ("parents", ["q"]),
        ("modules", ["some_module", "other_module"]),
    ]:
        keys.add(stage_key(**{**base, name: value}))
    assert len(keys) == 6
    assert stage_key(**base) in keys
    (tmp_path / "some_module.py").write_text("x = 2\n")
    assert stage_key(**base) in keys  # this process still runs the old code
    provenance._module_hash.cache_clear()
    assert stage_key(**base) not in keys


def test_the_hash_of_a_package_covers_its_modules():
    assert source_hash(["diffgr2lib.data"]) != source_hash(["diffgr2lib.text"])
    with pytest.raises(ArtifactError, match="nothing_here"):
        source_hash(["nothing_here"])


def test_an_unwritable_store_says_what_to_set(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="DIFFGR2_ARTIFACTS"):
        get(Store(tmp_path / "file" / "inside"))


def test_the_manifest_says_where_the_artifact_comes_from(tmp_path):
    def numbers(out, work):
        return {"a": np.float32(0.5), "b": np.int64(3), "c": (1, 2), "d": np.arange(2)}

    built = get(Store(tmp_path), numbers)
    read = get(Store(tmp_path))
    assert read.manifest == built.manifest
    assert read.manifest["metrics"] == {"a": 0.5, "b": 3, "c": [1, 2], "d": [0, 1]}
    wanted = {
        "config",
        "seed",
        "parents",
        "versions",
        "device",
        "dtype",
        "git",
        "seconds",
        "sha256",
    }
    assert wanted <= set(read.manifest) and set(git_state()) == {"revision", "dirty"}


def kill_in_the_middle(root):
    def die(out, work):
        (out / "half.bin").write_bytes(b"half")
        (work / "step").write_text("3")
        os.kill(os.getpid(), signal.SIGKILL)
        return {}

    get(Store(root), die)


def test_a_killed_build_leaves_its_work_and_no_lock(tmp_path):
    process = multiprocessing.get_context("fork").Process(
        target=kill_in_the_middle, args=(tmp_path,)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL and not (tmp_path / "stage" / "k1").exists()

    def resume(out, work):
        assert (work / "step").read_text() == "3" and not list(out.iterdir())
        return build(out, work)

    assert get(Store(tmp_path), resume).hit is False
    assert sorted(path.name for path in (tmp_path / "stage").iterdir()) in (
        ["k1"],
        ["k1", "k1.lock"],
    )


def test_force_starts_anew_from_an_artifact_but_resumes_a_killed_rebuild(tmp_path):
    store, seen = Store(tmp_path), []
    get(store)
    (tmp_path / "stage" / "k1.work").mkdir()  # killed after the rename, before the work was removed
    (tmp_path / "stage" / "k1.work" / "step").write_text("9")

    def rebuild(out, work):
        seen.append(sorted(path.name for path in work.iterdir()))
        (work / "step").write_text("3")
        if len(seen) == 1:
            raise RuntimeError("killed")
        return build(out, work)

    with pytest.raises(RuntimeError):
        get(store, rebuild, force=True)
    get(store, rebuild, force=True)
    assert seen == [[], ["step"]]


def test_a_stage_may_not_write_links_or_its_own_manifest(tmp_path):
    def link(out, work):
        (out / "weights.bin").symlink_to(tmp_path)
        return {}

    def own(out, work):
        (out / "manifest.json").write_text("{}")
        return {}

    for bad, word in ((link, "weights.bin"), (own, "manifest.json")):
        with pytest.raises(ArtifactError, match=word):
            get(Store(tmp_path), bad)
        assert not (tmp_path / "stage" / "k1").exists()


def test_the_store_is_found_from_a_folder_of_the_project(tmp_path, monkeypatch):
    monkeypatch.delenv("DIFFGR2_ARTIFACTS", raising=False)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "diffgr2"\n')
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "pyproject.toml").write_bytes(b"\xff another project")
    monkeypatch.chdir(tmp_path / "notebooks")
    assert project_root() == tmp_path.resolve()
    assert Store().root == tmp_path.resolve() / "artifacts"
    monkeypatch.setenv("DIFFGR2_ARTIFACTS", str(tmp_path / "elsewhere"))
    assert Store().root == tmp_path / "elsewhere"
