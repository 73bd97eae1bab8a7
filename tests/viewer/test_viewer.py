"""The viewer's markup: inert, complete without scripts, and self-contained."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from diffgr2lib.errors import ConfigError, ModelError
from diffgr2lib.report.compare import CompareView
from diffgr2lib.report.gallery import Gallery
from diffgr2lib.report.lane import visible
from diffgr2lib.report.viewer import TrajectoryViewer
from tests.viewer.samples import HOSTILE, TITLE, answered, hostile, trajectory


class Reader(HTMLParser):
    """Tags, and the text outside style and script."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.skip = [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.skip += tag in ("style", "script")

    def handle_endtag(self, tag):
        self.skip -= tag in ("style", "script")

    def handle_data(self, data):
        if not self.skip:
            self.texts.append(data)


@pytest.fixture
def viewer():
    made, words, example, grammar = answered(title=TITLE)
    ar = trajectory(made.tokens[: made.length], B=1, seed=3)
    return TrajectoryViewer(made, words, example, ar, grammar, title=TITLE)


def test_hostile_tokens_and_titles_are_text():
    made, words = hostile()
    read = Reader(TrajectoryViewer(made, words, title=TITLE).html())
    text = "".join(read.texts)
    assert all(visible(word) in text for word in HOSTILE) and TITLE in text
    assert [tag for tag, _ in read.tags if tag in ("img", "iframe", "object")] == []
    assert sum(tag == "script" for tag, _ in read.tags) == 2
    assert not any(name.startswith("on") for _, given in read.tags for name in given)


def test_the_static_part_shows_everything(viewer):
    read = Reader(viewer.body())
    text = " ".join(read.texts)
    cells = [given for tag, given in read.tags if given.get("role") == "gridcell"]
    one, ar = viewer.lane.trajectory, viewer.ar.trajectory
    assert len(cells) == len(one.tokens) + len(ar.tokens)
    assert "bought next" in text and "Valid: a permutation" in text and TITLE in text
    assert viewer.status(viewer.steps) in text and "Every step as a table" in text
    rows = sum(tag == "tr" for tag, _ in read.tags)
    assert rows == viewer.steps + 1


def test_a_page_asks_no_host(viewer, tmp_path):
    text = viewer.to_html(tmp_path / "t.html").read_text(encoding="utf-8")
    assert not re.search(r"https?:|url\(|@import|\bfetch\(|XMLHttp", text)
    assert "Content-Security-Policy" in text and text.startswith("<!DOCTYPE html>")


def test_the_data_block_is_json_that_no_token_closes(viewer):
    found = re.search(r'class="data">(.*?)</script>', viewer.body(), re.S)
    data = json.loads(found[1])
    assert data["lanes"][0]["words"] == list(viewer.lane.words)
    assert data["ticks"][-1] == viewer.lane.trajectory.nfe
    assert data["later"][-1] == viewer.ar.trajectory.nfe


def test_a_bundle_has_a_plain_and_an_html_form(viewer):
    bundle = viewer._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert "forward passes" in bundle["text/plain"] and "<script" in bundle["text/html"]
    assert viewer.html() == viewer.html()


def test_a_png_has_the_same_bytes_each_time(viewer, tmp_path):
    first = viewer.to_png(tmp_path / "a.png", step=5).read_bytes()
    assert first == viewer.to_png(tmp_path / "b.png", step=5).read_bytes()
    with pytest.raises(ConfigError, match="steps 0 to"):
        viewer.to_png(tmp_path / "c.png", step=10**6)
    with pytest.raises(ConfigError, match="give 'step'"):
        viewer.to_png(tmp_path / "c.png", colour="red")


def test_what_does_not_fit_together_is_refused():
    made, words, example, grammar = answered()
    with pytest.raises(ModelError, match="different prompts"):
        TrajectoryViewer(made, words, ar=replace(made, prompt=(5,)))
    with pytest.raises(ModelError, match="both the example"):
        TrajectoryViewer(made, words, example)
    with pytest.raises(ModelError, match="at least two"):
        CompareView({"a": made}, words)


def test_a_comparison_frames_the_first_difference_and_marks_duplicates():
    good, words, example, grammar = answered()
    bad = answered(swap=[(2, "J")])[0]
    view = CompareView({"good": good, "bad": bad}, words, example, grammar)
    read = Reader(view.body())
    first = [
        given
        for _, given in read.tags
        if "first" in given.get("class", "").split() and "role" in given
    ]
    assert len(first) == 1
    text = "".join(read.texts)
    assert "Duplicate: J stands at ranks 1 and 3." in text and "Omission: H missing." in text
    assert "J×" in text and "first differs at position" in repr(view)


def test_a_gallery_has_one_thumbnail_a_prompt_with_its_sort_keys():
    parts = [answered(seed=n, swap=[(2, "J")] if n == 1 else ()) for n in range(3)]
    words, grammar = parts[0][1], parts[0][3]
    gallery = Gallery([p[0] for p in parts], words, [p[2] for p in parts], grammar)
    read = Reader(gallery.body())
    thumbs = [given for tag, given in read.tags if given.get("class") == "thumb"]
    assert [int(one["data-invalid"]) for one in thumbs] == [1, 0, 1]
    assert [int(one["data-nfe"]) for one in thumbs] == [p[0].nfe for p in parts]
    with pytest.raises(ModelError, match="one of each a prompt"):
        Gallery([parts[0][0]], words, [], grammar)
