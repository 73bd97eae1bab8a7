"""The README's two pictures of the viewer: `python -m tests.browser.pictures --preset toy`.

Takes the trained models of a preset (and trains what is missing), decodes one test user, and
photographs the page, in both themes, at the step that settles the first places of the ranking.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from diffgr2lib.report.live import view

ROOT = Path(__file__).resolve().parents[2]
THEMES = {"light": "step", "dark": "confidence"}


def main() -> None:
    """Write figures/viewer/light.png and dark.png."""
    parser = argparse.ArgumentParser("tests.browser.pictures", description=__doc__)
    parser.add_argument("--preset", default="toy")
    parser.add_argument("--system", default="opd")
    parser.add_argument("--user", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / "figures" / "viewer")
    given = parser.parse_args()
    viewer = view(given.preset, given.system, given.user)
    settled = sorted(rank.settled for rank in viewer.answer.ranks) if viewer.answer else []
    step = settled[3] if len(settled) > 3 else viewer.steps // 2
    given.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        page_file = viewer.to_html(Path(folder) / "trajectory.html")
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for theme, colouring in THEMES.items():
            page = browser.new_page(color_scheme=theme, viewport={"width": 1320, "height": 700})
            page.goto(page_file.as_uri())
            page.locator(f"input[name=colour][value={colouring}]").check()
            page.locator(".slider").focus()
            page.keyboard.press("Home")
            for _ in range(step):
                page.keyboard.press("ArrowRight")
            page.locator(".lane").first.locator(".t.now").first.hover()
            page.locator(".dgv").screenshot(path=given.out / f"{theme}.png")
        browser.close()


if __name__ == "__main__":
    main()
