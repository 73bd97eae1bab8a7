"""Whatever bytes a data folder holds: it is read, or refused with one DataError naming the place."""

import json
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diffgr2lib.config import DataConfig
from diffgr2lib.data.folder import read_folder
from diffgr2lib.data.lists import build_lists
from diffgr2lib.errors import DataError

ITEMS = [{"id": n, "sid": f"<a_1><b_{n}>", "title": f"t{n}"} for n in range(1, 6)]
GOOD_ITEMS = "\n".join(map(json.dumps, ITEMS)).encode()
GOOD_SEQUENCES = b"1 1 2 3\n2 3 4 5 1\n"


def read(items=GOOD_ITEMS, sequences=GOOD_SEQUENCES):
    """The dataset, or None where it was refused; any other error passes through."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "items.jsonl").write_bytes(items)
        (Path(folder) / "sequences.txt").write_bytes(sequences)
        try:
            return read_folder(folder)
        except DataError as error:
            assert "items.jsonl" in str(error) or "sequences.txt" in str(error)
            return None


texts = st.text(st.characters(), max_size=20)  # half surrogate pairs too
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=60))
@example(b"[" * 100_000, b"")
@example(b'{"id":1' + b"0" * 5000 + b"}", b"")
def test_any_bytes_are_read_or_refused(items, sequences):
    read(items=items)
    read(items=GOOD_ITEMS + b"\n" + items)
    read(sequences=sequences)
    read(sequences=GOOD_SEQUENCES + sequences)


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(["id", "sid", "title", "brand", "categories", "price"]), values)
def test_any_value_of_any_field_is_read_or_refused(field, value):
    rows = [*ITEMS[:-1], {**ITEMS[-1], field: value}]
    data = read("\n".join(map(json.dumps, rows)).encode())
    if data is not None:
        json.dumps(data.catalogue.to_json(), ensure_ascii=False).encode()  # can be written


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"]),
    st.sampled_from(["\n", "\r\n", "\n\n", "\r\n \r\n"]),
    st.sampled_from(["Crème", "日本", "", " ", "a\tb", "\x00", "<b>"]),
)
def test_line_ends_and_encodings_are_read_alike_or_refused(encoding, end, title):
    rows = [json.dumps({**item, "title": title}, ensure_ascii=False) for item in ITEMS]
    try:
        data = read(end.join(rows).encode(encoding), GOOD_SEQUENCES.replace(b"\n", end.encode()))
    except UnicodeEncodeError:  # this encoding cannot say it
        return
    if encoding.startswith("utf-8"):
        assert data is not None and len(data.sequences) == 2
    if data is not None:
        assert all(item.title == title for item in data.catalogue.items)


def test_a_line_of_ten_megabytes_is_read_in_seconds():
    began = time.process_time()
    data = read(
        "\n".join(map(json.dumps, [{**ITEMS[0], "title": "x" * 10**7}, *ITEMS[1:]])).encode()
    )
    assert len(data.catalogue.item(1).title) == 10**7
    assert read(sequences=GOOD_SEQUENCES + b"3" + b" 1" * (5 * 10**6)) is not None
    assert time.process_time() - began < 20


def test_repeated_items_are_purchases_and_one_item_users_are_refused():
    assert read(sequences=b"1 2 2 2 2\n").sequences == {1: (2, 2, 2, 2)}
    assert read(sequences=b"1 2\n") is None and read(sequences=b"1\n") is None
    assert read(sequences=b"1 1 2 99\n") is None


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path):
    (tmp_path / "items.jsonl").mkdir()
    with pytest.raises(DataError, match="items.jsonl cannot be read"):
        read_folder(tmp_path)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_lists_of_any_small_dataset_are_built_or_refused(data):
    items = data.draw(st.integers(2, 60))
    users = data.draw(st.integers(1, 12))
    rows = [{"id": n, "sid": f"<a_1><b_{n}>"} for n in range(1, items + 1)]
    bought = st.lists(st.integers(1, items), min_size=3, max_size=8)
    lines = [" ".join(map(str, [user, *data.draw(bought)])) for user in range(users)]
    found = read("\n".join(map(json.dumps, rows)).encode(), "\n".join(lines).encode())
    try:
        lists = build_lists(found, DataConfig(source="folder", candidates=5))
    except DataError:
        return
    assert all(len(example.candidates) == 5 for example in lists.test)
