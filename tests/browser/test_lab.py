"""A real JupyterLab: run-all, keys, themes; and the same notebook after papermill and nbconvert."""

import shutil
import subprocess
import sys

import nbformat
import pytest

from tests.browser.conftest import ROOT

pytestmark = pytest.mark.lab
IDLE = "Python 3 (ipykernel) | Idle"


def opened(watch, address, name):
    seen = watch()
    seen.page.goto(f"{address}/lab/tree/{name}?reset", wait_until="load")
    seen.page.get_by_text(IDLE).wait_for(timeout=120000)
    return seen


def test_run_all_in_jupyterlab(watch, lab, executed, private):
    address, folder = lab
    book = nbformat.read(ROOT / "notebooks" / "08_trajectories.ipynb", as_version=4)
    for cell in book.cells:
        if "parameters" in cell.metadata.get("tags", []):
            cell.source = cell.source.replace('"toy"', '"smoke"').replace(
                'out_dir: str = ""', f'out_dir: str = "{folder / "figures"}"'
            )
    nbformat.write(book, folder / "08.ipynb")
    seen = opened(watch, address, "08.ipynb")
    page = seen.page
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.locator(".jp-OutputArea-output", has_text="manifest.json").wait_for(
        state="attached", timeout=240000
    )
    assert page.get_by_text("Traceback").count() == 0

    viewer = page.locator("section.dgv").first
    viewer.scroll_into_view_if_needed()
    slider = viewer.get_by_role("slider", name="denoising step")
    slider.focus()
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    page.keyboard.press("Home")
    for key in ("ArrowRight", "ArrowRight", "b", "a", "x", "ArrowDown"):
        page.keyboard.press(key)
    assert slider.input_value() == "1"
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells  # no shortcut was taken
    assert viewer.get_by_role("status").inner_text().startswith("step 1 of")
    light = viewer.evaluate("node => getComputedStyle(node).backgroundColor")
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    dark = viewer.evaluate("node => getComputedStyle(node).backgroundColor")
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(20, 23, 28)")
    page.evaluate("document.body.dataset.jpThemeLight = 'true'")
    page.screenshot(path=folder / "viewer.png")

    button = page.get_by_role("button", name="Decode")
    button.scroll_into_view_if_needed()
    page.get_by_placeholder("A B C").fill("A A")
    button.click()
    page.get_by_role("alert").filter(has_text="names A more than once").wait_for(timeout=30000)
    page.get_by_placeholder("A B C").fill("")
    page.get_by_role("textbox", name="tau", exact=True).fill("0.3")
    button.click()
    page.get_by_role("heading", name="tau 0.3").wait_for(timeout=60000)
    page.screenshot(path=folder / "explore.png")
    assert page.get_by_text("Traceback").count() == 0
    seen.check()


def test_a_saved_notebook_needs_no_kernel(watch, lab, executed):
    address, folder = lab
    shutil.copy(executed, folder / "saved.ipynb")
    seen = opened(watch, address, "saved.ipynb")
    shown = seen.page.locator(".jp-OutputArea-output", has_text="forward passes").first
    shown.wait_for(timeout=60000)
    assert "block 1" in shown.inner_text() and "TPF" in shown.inner_text()
    seen.check()


def test_the_fallback_is_there_after_papermill_and_nbconvert(watch, executed, private):
    book = nbformat.read(executed, as_version=4)
    bundles = [o.data for c in book.cells for o in c.get("outputs", []) if "data" in o]
    viewers = [data for data in bundles if 'class="dgv' in data.get("text/html", "")]
    assert len(viewers) == 5
    assert all(
        "forward passes" in str(data["text/plain"]) or "NFE" in str(data["text/plain"])
        for data in viewers
    )
    command = [sys.executable, "-m", "nbconvert", "--to", "html", str(executed)]
    done = subprocess.run(command, env=private, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    seen = watch(java_script_enabled=False)
    seen.page.route(
        "**/*",
        lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort(),
    )
    seen.page.goto(executed.with_suffix(".html").as_uri())
    assert seen.page.locator("section.dgv .cells .t").first.is_visible()
    assert seen.page.get_by_text("Every step as a table").first.is_visible()
    alive = watch()
    alive.page.route(
        "**/*",
        lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort(),
    )
    alive.page.goto(executed.with_suffix(".html").as_uri())
    slider = alive.page.get_by_role("slider", name="denoising step").first
    slider.focus()
    alive.page.keyboard.press("Home")
    assert alive.page.get_by_role("status").first.inner_text().startswith("step 0 of")
