import json

import pytest

from diffgr2lib.data.folder import Counts, find_beauty, read_beauty, read_folder
from diffgr2lib.errors import DataError


def item(number, **changes):
    data = {
        "id": number, "title": f"t{number}", "brand": "B", "sid": f"<a_1><b_{number}>",
        "categories": [["Top", "Leaf"], ["Other"]], **changes,
    }  # fmt: skip
    return json.dumps(data)


def write(folder, items, sequences):
    (folder / "items.jsonl").write_bytes(items.encode())
    (folder / "sequences.txt").write_bytes(sequences.encode())
    return folder


GOOD_ITEMS = "\n".join(item(n) for n in range(1, 6))
GOOD_SEQUENCES = "1 1 2 3\n2 3 4 5 1\n"


def test_reads_items_and_sequences(tmp_path):
    items = [item(2, brand="Unknown", title=""), item(1, price=2), item(3, categories=[], brand="")]
    data = read_folder(write(tmp_path, "\n".join(items), "7 1 2 3\n"), name="mine")
    first, second, third = data.catalogue.items
    assert (first.id, first.sid, first.category, first.price) == (1, (1, 1), "Leaf", 2)
    assert (second.brand, second.title, second.price) == ("", "", -1)
    assert (third.brand, third.category) == ("", "")
    assert data.sequences == {7: (1, 2, 3)}
    assert data.catalogue.sid_levels == (2, 4)


def test_windows_line_ends_blank_lines_and_byte_order_mark(tmp_path):
    items = "\ufeff" + GOOD_ITEMS.replace("\n", "\r\n\r\n") + "\r\n"
    data = read_folder(write(tmp_path, items, GOOD_SEQUENCES.replace("\n", "\r\n") + "\r\n"))
    assert len(data.catalogue.items) == 5 and len(data.sequences) == 2


@pytest.mark.parametrize(
    ("items", "sequences", "message"),
    [
        (GOOD_ITEMS + "\n{'id'", GOOD_SEQUENCES, r"items.jsonl, line 6: this is no JSON"),
        (GOOD_ITEMS + "\n[1]", GOOD_SEQUENCES, r"items.jsonl, line 6: .*JSON object"),
        (GOOD_ITEMS + "\n" + item(5), GOOD_SEQUENCES, r"line 6: item 5 .* second time"),
        (GOOD_ITEMS + "\n" + item(8), GOOD_SEQUENCES, r"none with id 6"),
        (item(0), "", r"line 1: 'id' is 0"),
        (item("1"), "", r"line 1: 'id' is '1'"),
        (item(1, sid="<a_1"), "", r"line 1: 'sid' is '<a_1'"),
        (item(1, sid="<b_1><a_1>"), "", r"line 1: 'sid' .* order"),
        (item(1) + "\n" + item(2, sid="<a_1>"), "", r"line 2: 'sid' has 1 levels"),
        (item(1, title=None), "", r"line 1: 'title' and 'brand'"),
        (item(1, categories=[[]]), "", r"line 1: 'categories'"),
        (item(1, categories="x"), "", r"line 1: 'categories'"),
        (item(1, price="cheap"), "", r"line 1: 'price'"),
        ("", "", r"0 items"),
        (GOOD_ITEMS, "1 1 2 3\n2 1 2 6\n", r"sequences.txt, line 2: item 6 is not in items.jsonl"),
        (GOOD_ITEMS, "1 1 2 3\n\n1 1 2 4\n", r"line 3: user 1 .* second time"),
        (GOOD_ITEMS, "1 1 2 x\n", r"line 1: 'x' is no whole number"),
        (GOOD_ITEMS, "1 1 2\n", r"line 1: user 1 has 2 purchases"),
        (GOOD_ITEMS, "1 1 2 3\n2 3 4 5 " + "9" * 5000, r"sequences.txt, line 2: '9999"),
        (GOOD_ITEMS, "", r"no user"),
    ],
)
def test_complaints_name_file_and_line(tmp_path, items, sequences, message):
    with pytest.raises(DataError, match=message):
        read_folder(write(tmp_path, items, sequences))


def test_not_utf8_names_the_line(tmp_path):
    write(tmp_path, GOOD_ITEMS, GOOD_SEQUENCES)
    (tmp_path / "items.jsonl").write_bytes(item(1).encode() + b"\n\xff\n")
    with pytest.raises(DataError, match=r"items.jsonl, line 2: .*UTF-8"):
        read_folder(tmp_path)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"items.jsonl is missing"):
        read_folder(tmp_path)


def test_short_file_is_refused(tmp_path):
    write(tmp_path, GOOD_ITEMS, GOOD_SEQUENCES)
    assert read_folder(tmp_path, Counts(2, 5, 7)).name == tmp_path.name
    with pytest.raises(DataError, match="2 users, 5 items and 7 purchases where 3, 5 and 7 belong"):
        read_folder(tmp_path, Counts(3, 5, 7))


def test_only_frequent_brands_are_kept_and_colliding_sids_moved(tmp_path):
    brands = ["X", "Y", "Y", "Z", "Z"]
    rows = [item(n + 1, brand=b, sid=f"<a_0><b_{n // 2}>") for n, b in enumerate(brands)]
    write(tmp_path, "\n".join(rows), GOOD_SEQUENCES)
    with pytest.raises(DataError, match="more codes"):
        read_folder(tmp_path)
    rows[4] = item(5, brand="Z", sid="<a_0><b_4>")
    items = read_folder(write(tmp_path, "\n".join(rows), GOOD_SEQUENCES), brands_shown=2).catalogue
    assert [i.brand for i in items.items] == ["", "Y", "Y", "Z", "Z"]
    assert [i.sid[1] for i in items.items] == [0, 2, 1, 3, 4]
    assert all(len(ids) == 1 for ids in items.by_sid.values())


def test_beauty_is_found_by_variable_then_by_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setenv("DIFFGR2_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(DataError, match="elsewhere.*Put items.jsonl and sequences.txt"):
        find_beauty()
    for name in ("elsewhere", "data/beauty"):
        (tmp_path / name).mkdir(parents=True)
        write(tmp_path / name, GOOD_ITEMS, GOOD_SEQUENCES)
    assert find_beauty() == tmp_path / "elsewhere"
    monkeypatch.delenv("DIFFGR2_DATA")
    assert find_beauty() == tmp_path / "data" / "beauty"


def test_real_beauty_has_its_counts():
    try:
        folder = find_beauty()
    except DataError as error:
        pytest.skip(str(error))
    data = read_beauty(folder)
    assert len(data.sequences) == 22_363
    assert all(len(ids) == 1 for ids in data.catalogue.by_sid.values())
    assert data.catalogue.sid_levels == (256, 256, 256, 256)
    assert len({i.brand for i in data.catalogue.items} - {""}) == 512
