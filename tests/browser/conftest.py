"""A headless chromium, and a JupyterLab of its own; both skip with a reason where they are missing."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def chromium():
    """Debian's chromium, started once."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install -e '.[browser]'"
    )
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no chromium is installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A page that remembers console errors and requests that leave this machine."""

    def __init__(self, browser, **options):
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.context.set_default_timeout(90000)
        self.page = self.context.new_page()
        self.errors, self.foreign = [], []
        self.page.on("console", lambda said: said.type == "error" and self.errors.append(said.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._note)

    def _note(self, request):
        home = ("file://", "data:", "blob:", "http://127.0.0.1:", "ws://127.0.0.1:")
        if not request.url.startswith(home):
            self.foreign.append(request.url)

    def check(self):
        """No error in the console, no request to any other host."""
        assert self.errors == [] and self.foreign == []


@pytest.fixture
def watch(chromium):
    """Factory of watched pages, closed after the test."""
    opened = []

    def make(**options):
        opened.append(Watched(chromium, **options))
        return opened[-1]

    yield make
    for one in opened:
        one.context.close()


@pytest.fixture(scope="session")
def private(tmp_path_factory):
    """Environment with Jupyter folders and an artifact store of its own; no news are fetched."""
    home = tmp_path_factory.mktemp("jupyter")
    settings = home / "app-settings"
    shutil.copytree(
        Path(sys.prefix) / "share" / "jupyter" / "lab",
        settings,
        ignore=shutil.ignore_patterns("static", "schemas", "themes"),
        dirs_exist_ok=True,
    )
    folder = home / "config" / "labconfig"
    folder.mkdir(parents=True)
    quiet = {
        "@jupyterlab/apputils-extension:notification": {
            "fetchNews": "false",
            "checkForUpdates": False,
        }
    }
    (folder / "default_setting_overrides.json").write_text(json.dumps(quiet))
    return os.environ | {
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        "DIFFGR2_ARTIFACTS": os.environ.get("DIFFGR2_ARTIFACTS") or str(home / "artifacts"),
        "PYTHONPATH": str(ROOT),
    }


@pytest.fixture(scope="session")
def executed(private, tmp_path_factory):
    """Notebook 08 after papermill at `smoke`."""
    out = tmp_path_factory.mktemp("papermill")
    command = [sys.executable, "-m", "papermill", str(ROOT / "notebooks" / "08_trajectories.ipynb")]
    command += [str(out / "out.ipynb"), "-k", "python3", "-p", "preset", "smoke"]
    command += ["-p", "out_dir", str(out / "figures"), "--no-progress-bar"]
    done = subprocess.run(command, cwd=out, env=private, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return out / "out.ipynb"


@pytest.fixture(scope="session")
def lab(private, tmp_path_factory):
    """Address and folder of a JupyterLab on a free port, stopped at the end."""
    folder = tmp_path_factory.mktemp("lab")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (folder / "lab.log").open("w")
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        f"--port={port}",
        "--allow-root",
        "--ip=127.0.0.1",
    ]
    command += [
        "--IdentityProvider.token=",
        "--ServerApp.password=",
        f"--ServerApp.root_dir={folder}",
    ]
    command += ["--LabApp.news_url=None", "--LabApp.extension_manager=readonly"]
    server = subprocess.Popen(
        command, cwd=folder, env=private, stdout=log, stderr=subprocess.STDOUT
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{address}/api", timeout=2).read()
                break
            except OSError:
                assert server.poll() is None, (folder / "lab.log").read_text()[-2000:]
                time.sleep(0.5)
        yield address, folder
    finally:
        server.terminate()
        server.wait(20)
        log.close()
