"""`kvscope dashboards render`: files that Prometheus, Kubernetes and Docker take."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kvscope.cli import main
from kvscope.dashboards.boards import BOARDS
from kvscope.dashboards.rendering import files


def test_what_is_rendered_is_said_and_the_same_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["dashboards", "render", str(tmp_path / "out")]) == 0
        assert [Path(line) for line in capsys.readouterr().out.splitlines()] == [
            tmp_path / "out" / name for name in files()
        ]
    for board in BOARDS:
        assert json.loads((tmp_path / "out" / "json" / f"{board.key}.json").read_text())["uid"] == board.uid


def test_a_file_in_the_way_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").touch()
    assert main(["dashboards", "render", str(tmp_path / "out")]) == 2
    assert "is no directory" in capsys.readouterr().err


def test_config_maps_hold_the_dashboards_and_no_more_than_kubernetes_takes() -> None:
    text = files()["kubernetes/configmaps.yaml"]
    parts = text.split("---\n")
    assert len(parts) == len(BOARDS)
    for part, board in zip(parts, BOARDS, strict=True):
        found = re.search(rf"  kvscope-{board.key}\.json: \|\n((?:    .*\n)+)", part)
        assert found is not None
        assert json.loads(found[1])["uid"] == board.uid
        assert len(part) < 1_000_000


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed")
def test_promtool_takes_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_text(files()["prometheus.yml"])
    checked = subprocess.run(
        ["promtool", "check", "config", str(tmp_path / "prometheus.yml")], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stderr
