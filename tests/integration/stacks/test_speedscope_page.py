"""The file that is written opens in speedscope itself, as npm ships it, in a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kvscope.stacks.speedscope import speedscope

from ...unit.stacks.scenes import ASLEEP, FORWARD, sampled

CHROMIUM, NPM = shutil.which("chromium"), shutil.which("npm")
PACKAGE = "speedscope@1.25.0"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None or NPM is None, reason="needs chromium and npm"),
]


@pytest.fixture(scope="module")
def page_of_speedscope(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """speedscope's own page."""
    folder = tmp_path_factory.mktemp("speedscope")
    (folder / "package.json").write_text("{}")
    installed = subprocess.run(
        ["npm", "install", "--silent", "--no-save", PACKAGE], cwd=folder, capture_output=True, text=True, timeout=100
    )
    if installed.returncode:
        pytest.skip(f"npm has no {PACKAGE} here")
    return folder / "node_modules/speedscope/dist/release/index.html"


def test_every_thread_is_there(page_of_speedscope: Path, tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    did = {
        ("p0", "core"): lambda ms: (FORWARD, True, False, False),
        ("p0", "writer"): lambda ms: ASLEEP,
        ("d0", "core"): lambda ms: ASLEEP,
    }
    path = tmp_path / "profile.speedscope.json"
    path.write_text("".join(speedscope(sampled(tmp_path / "stacks.jsonl", did), "both engines")))
    assert len(json.loads(path.read_text())["profiles"]) == 3
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            page = browser.new_page()
            errors: list[str] = []
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(page_of_speedscope.as_uri())
            page.set_input_files("input[type=file]", path)
            page.get_by_text("(1/3)").wait_for()
            assert page.title() == "both engines - speedscope"
            assert "d0 core: core, pid 10, tid 102" in page.inner_text("body")
            assert errors == []
        finally:
            browser.close()
