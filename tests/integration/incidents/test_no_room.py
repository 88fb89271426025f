"""A disk that is full when an incident is saved: it is said, the server goes on, and what was written can be read."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvscope.sources import open_sources

from ..live.conftest import until
from ..sources.conftest import Start

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare here"),
]


@contextmanager
def served(disk: Path, run_dir: Path, options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server that saves onto a small disk of its own, and its address."""
    kvscope = f'"{sys.executable}" -m kvscope serve --port 0 --run-dir {run_dir} --save-to {disk}/saved'
    kvscope += " --after 100ms --keep 366d --before 366d"  # times of what is recorded begin with the host's
    script = f"mount -t tmpfs -o {options} none {disk} && exec {kvscope}"
    with subprocess.Popen(
        ["unshare", "-m", "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url and not os.environ.get("CI"):
            pytest.skip(f"may not mount here: {process.communicate()[1].strip()}")
        try:
            yield process, url
        finally:
            process.kill()


def failures(url: str) -> int:
    with urllib.request.urlopen(f"{url}/healthz", timeout=10) as answer:
        return int(json.loads(answer.read())["flight"]["incidents"]["failed"])


@pytest.mark.parametrize("options", ["size=16k", "size=100k", "nr_inodes=2", "nr_inodes=3"])
def test_a_full_disk_fails_an_incident_and_not_the_server(
    run_dir: Path, start: Start, tmp_path: Path, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVSCOPE_RING_EVENTS", "16384")
    for engine in ("p0", "d0"):
        start(engine).tell("write 15000")
    (tmp_path / "disk").mkdir()
    with served(tmp_path / "disk", run_dir, options) as (process, url):
        asked = urllib.request.Request(f"{url}/trigger", b"", method="POST")
        if options.startswith("nr_inodes"):
            with pytest.raises(urllib.error.HTTPError, match="500") as raised:
                urllib.request.urlopen(asked, timeout=10)
            told = json.loads(raised.value.read())
            assert (told["outcome"], told["reason"].endswith(": no space left on device")) == ("failed", True)
        else:
            urllib.request.urlopen(asked, timeout=10).close()
        until(lambda: failures(url) == 1, "nothing failed")
        with urllib.request.urlopen(f"{url}/healthz", timeout=10) as answer:
            fault = "less than 1 MB of its disk is free" if options.startswith("size") else "no space left on device"
            assert json.loads(answer.read())["status"].endswith(f"/saved: {fault}")
        root = Path(f"/proc/{process.pid}/root") / (tmp_path / "disk").relative_to("/")
        found = list((root / "saved").glob("*/recording.kvs"))
        if options == "size=100k":
            assert 0 < len(open_sources(found).events) < 30_000
        else:
            assert found == []
        process.send_signal(signal.SIGTERM)
        said = process.communicate()[1]
    assert process.returncode == 0
    assert "no space left on device" in said
    assert "Traceback" not in said
