"""The two ways to Perfetto's page that docs/perfetto.md names, on the copy that is at hand."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pictures.perfetto_page import SHIPPED, browsed, opened
from kvscope.cli import main
from kvscope.lab.ports import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PICTURES = Path("docs/pictures")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "x.pftrace"
    assert main(["export", str(PICTURES / "push-early.kvs"), "--perfetto", str(path)]) == 0
    return path


def test_the_link_unfolds_what_matters(trace: Path) -> None:
    """The one in docs/perfetto.md, on the page that is at hand."""
    (link,) = re.findall(r"\(https://ui\.perfetto\.dev/(#\S+)\)", Path("docs/perfetto.md").read_text())
    with opened(trace, fragment=link) as page:
        text = page.page.locator("body").inner_text()
    for name in ("critical path", "prefill legs", "p0 writer", "d0 core", "decode legs"):
        assert name in text


def test_the_copy_that_is_served_by_hand(trace: Path, tmp_path: Path) -> None:
    """What docs/perfetto.md says of a copy of one's own."""
    shutil.copytree(SHIPPED, tmp_path / "page")
    shutil.copy(trace, tmp_path / "page" / "localtrace")
    (tmp_path / "page" / "vizviewer_info").touch()
    (port,) = free_ports(1)
    command = ["-m", "http.server", "--bind", "127.0.0.1", "--directory", str(tmp_path / "page"), str(port)]
    whole = [sys.executable, "-u", *command]
    with subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            assert b"Serving HTTP" in process.stdout.readline()
            with browsed(f"http://127.0.0.1:{port}/") as page:
                assert page.ask("SELECT count() FROM slice WHERE category = 'request'") == [[63]]
        finally:
            process.kill()
