"""The exported page, opened from disk: stepping, keys, details, both themes, hostile tokens."""

import pytest

from diffgr2lib.report.compare import CompareView
from diffgr2lib.report.gallery import Gallery
from diffgr2lib.report.lane import visible
from diffgr2lib.report.viewer import TrajectoryViewer
from tests.viewer.samples import HOSTILE, TITLE, answered, hostile, trajectory

THEMES = ("light", "dark")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Pages of a viewer, a comparison, a gallery, hostile tokens, and 512 tokens in 200 steps."""
    folder = tmp_path_factory.mktemp("pages")
    made, words, example, grammar = answered(title=TITLE)
    ar = trajectory(made.tokens[: made.length], B=1, seed=3)
    bad = answered(swap=[(2, "J")])[0]
    parts = [answered(seed=n, swap=[(2, "J")] if n == 1 else ()) for n in range(3)]
    big, big_words = hostile(512, B=32, seed=5)
    views = {
        "viewer": TrajectoryViewer(made, words, example, ar, grammar),
        "compare": CompareView({"good": made, "bad": bad, "AR": ar}, words, example, grammar),
        "gallery": Gallery([p[0] for p in parts], words, [p[2] for p in parts], grammar),
        "hostile": TrajectoryViewer(*hostile(), title=TITLE),
        "big": TrajectoryViewer(big, big_words, ar=trajectory(big.tokens[: big.length], B=1)),
    }
    assert views["big"].steps >= 200
    return views, {
        name: view.to_html(folder / f"{name}.html").as_uri() for name, view in views.items()
    }


def move(page, tick):
    page.evaluate(
        "tick => { const s = document.querySelector('.slider'); s.value = tick;"
        " s.dispatchEvent(new Event('input', {bubbles: true})); }",
        tick,
    )


def test_the_slider_steps_through_the_canvas_and_says_so(watch, files):
    views, addresses = files
    seen = watch()
    page, view = seen.page, views["viewer"]
    page.goto(addresses["viewer"])
    clock = view.lane.clock
    for step in (0, 1, 7, clock.steps):
        move(page, step)
        said = page.get_by_role("status").inner_text()
        assert said.startswith(view.status(step))
        lane = page.locator(".lane").first
        assert lane.locator(".cells .t.now").count() == (clock.step.count(step) if step else 0)
        masked, block = int(said.split(", ")[2].split()[0]), clock.block(step)
        hatched = lane.locator(f".block[data-block='{block}'] .t.masked")
        assert hatched.count() == masked if step < clock.steps else True
        hidden = lane.locator(".t.masked bdi, .t.waiting bdi")
        assert not any(hidden.nth(n).is_visible() for n in range(min(3, hidden.count())))
    seen.check()


def test_keys_move_the_slider_and_the_tokens(watch, files):
    views, addresses = files
    seen = watch()
    page, steps = seen.page, views["viewer"].steps
    page.goto(addresses["viewer"])
    slider = page.get_by_role("slider", name="denoising step")
    slider.focus()
    value = lambda: int(slider.input_value())  # noqa: E731
    for key, wanted in (
        ("Home", 0),
        ("ArrowRight", 1),
        ("ArrowUp", 2),
        ("ArrowLeft", 1),
        ("PageUp", 11),
        ("End", steps),
    ):
        page.keyboard.press(key)
        assert value() == wanted
    assert "step" in slider.get_attribute("aria-valuetext")
    first = page.locator(".lane .cells .t").first
    first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    place = page.evaluate(
        "[...document.querySelector('.lane').querySelectorAll('.cells .t')].indexOf(document.activeElement)"
    )
    assert place == 9 and value() == steps
    assert "position 10" in page.locator(".detail").inner_text()
    seen.check()


def test_tab_reaches_every_control_and_each_has_a_name(watch, files):
    seen = watch()
    page = seen.page
    page.goto(files[1]["viewer"])
    reached = []
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "document.activeElement.className || document.activeElement.name || document.activeElement.tagName"
            )
        )
    text = " ".join(map(str, reached))
    for name in ("play", "back", "slider", "forth", "colour", "run-on"):
        assert name in text
    assert text.count("t s") == 2  # one stop for each canvas
    for role, name in (
        ("button", "Play"),
        ("button", "one back"),
        ("button", "one forward"),
        ("slider", "denoising step"),
        ("radio", "confidence"),
        ("checkbox", "run on until AR has finished"),
    ):
        assert page.get_by_role(role, name=name, exact=True).count() == 1
    assert page.get_by_role("grid").count() == 2 and page.get_by_role("status").count() == 1


def test_play_runs_to_the_end_and_the_clock_can_run_on(watch, files):
    views, addresses = files
    seen = watch()
    page, view = seen.page, views["viewer"]
    page.goto(addresses["viewer"])
    page.get_by_role("button", name="Play").click()
    assert page.get_by_role("status").get_attribute("aria-live") == "off"
    page.locator(".play", has_text="Pause").wait_for()
    page.locator(".play", has_text="Play").wait_for(timeout=30000)
    assert page.get_by_role("status").get_attribute("aria-live") == "polite"
    assert page.get_by_role("status").inner_text().startswith(view.status(view.steps))
    page.get_by_label("run on until AR has finished").check()
    page.locator(".slider").focus()
    page.keyboard.press("End")
    assert (
        f"{view.ar.trajectory.length} of {view.ar.trajectory.length} tokens"
        in page.locator(".lane").nth(1).inner_text()
    )
    seen.check()


def test_hostile_tokens_and_titles_are_shown_as_text(watch, files):
    seen = watch()
    page = seen.page
    page.goto(files[1]["hostile"])
    shown = page.locator(".cells .t bdi").all_inner_texts()
    assert set(map(visible, HOSTILE)) <= {text.replace("\xa0", " ") for text in shown}
    assert page.get_by_role("heading").first.inner_text() == TITLE and page.title() == TITLE
    page.locator(".cells .t").first.hover()
    assert visible(HOSTILE[0]) in page.locator(".detail").inner_text()
    assert page.locator("img").count() == 0
    seen.check()


def test_a_step_of_512_tokens_and_200_steps_takes_less_than_100_ms(watch, files):
    seen = watch()
    page = seen.page
    page.goto(files[1]["big"])
    worst = page.evaluate(
        """async () => { const s = document.querySelector('.slider'); const times = [];
        for (let n = 0; n < +s.max; n += 7) { const t = performance.now(); s.value = n;
          s.dispatchEvent(new Event('input', {bubbles: true})); document.body.offsetHeight;
          times.push(performance.now() - t); await new Promise(r => setTimeout(r)); }
        times.sort((a, b) => a - b); return times[Math.floor(times.length * 0.9)]; }"""
    )
    assert worst < 100
    seen.check()


CONTRAST = """() => {
  const numbers = (c) => { const n = c.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const light = ([r, g, b]) => [r, g, b].map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; })
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const ground = (node) => { for (; node; node = node.parentElement) {
    const c = numbers(getComputedStyle(node).backgroundColor); if (c[3] > 0.5) return c; } return [255, 255, 255, 1]; };
  const found = [];
  const walk = document.createTreeWalker(document.querySelector('.dgv'), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement, style = getComputedStyle(node);
    if (!walk.currentNode.data.trim() || style.visibility === 'hidden' || node.closest('style, script, [hidden], .unsettled') || !node.getClientRects().length) continue;
    const a = light(numbers(style.color)), b = light(ground(node));
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), node.className + ': ' + walk.currentNode.data.trim().slice(0, 30)]);
  }
  return found;
}"""


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", ["viewer", "compare", "gallery"])
def test_contrast_is_at_least_four_and_a_half(watch, files, theme, name):
    seen = watch(color_scheme=theme)
    page = seen.page
    page.goto(files[1][name])
    if name == "gallery":
        page.locator(".thumb > summary").first.click()
    for colour in ("commit step", "confidence"):
        page.get_by_text(colour, exact=True).first.click()
        found = page.evaluate(CONTRAST)
        assert len(found) > 100
        assert [entry for entry in found if entry[0] < 4.5] == []
    back = page.evaluate("getComputedStyle(document.querySelector('.dgv')).backgroundColor")
    assert (back == "rgb(255, 255, 255)") == (theme == "light")
    seen.check()


def test_a_comparison_runs_on_one_clock(watch, files):
    views, addresses = files
    seen = watch()
    page = seen.page
    page.goto(addresses["compare"])
    move(page, 10)
    said = page.get_by_role("status").inner_text()
    assert said.startswith("10 of ") and "AR 10 of" in said
    assert page.locator(".lane").nth(2).locator(".t.now").count() == 1
    move(page, 10**6)
    assert (
        page.locator(".strip > .bad").count() == 1
        and page.get_by_text("Omission: H missing.").count() == 1
    )
    assert page.locator(".lane .t.first").count() == 1
    seen.check()


def test_a_gallery_sorts_and_opens_its_viewers(watch, files):
    views, addresses = files
    seen = watch()
    page = seen.page
    page.goto(addresses["gallery"])
    page.get_by_label("Sort by").select_option("invalid")
    thumbs = page.locator(".thumb")
    assert "duplicate" in thumbs.first.locator("summary").first.inner_text()
    thumbs.first.locator("summary").first.click()
    slider = thumbs.first.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    assert thumbs.first.get_by_role("status").inner_text().startswith("step 0 of")
    seen.check()


def test_the_page_reads_without_scripts(watch, files):
    seen = watch(java_script_enabled=False)
    page = seen.page
    page.goto(files[1]["viewer"])
    assert not page.get_by_role("button", name="Play").is_visible()
    assert page.locator(".cells .t").first.is_visible()
    assert page.get_by_text("bought next", exact=True).is_visible()
    page.get_by_text("Every step as a table").click()
    assert page.get_by_role("table").is_visible()
    seen.check()
