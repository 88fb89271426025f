"""An engine that ended or was switched off is said to have, whatever its last minute showed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvscope.analysis.render.page import Page
from kvscope.live.collector import Collector
from kvscope.live.feed import Local
from kvscope.probe import control
from kvscope.top.pages.overview import put_overview

WRITER = """
import sys, time
from kvscope.probe import recorder
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE
recorder.describe({"engine": sys.argv[1], "engine_id": sys.argv[1], "role": sys.argv[2]})
recorder.record(MOMENT_CODE["load"], LEG_CODE["engine"], None, 0, 0, 0, 0, 100)
print("there", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def rings(tmp_path: Path) -> Path:
    return tmp_path / "kvscope-lab-1"


@pytest.fixture
def engines(rings: Path) -> Iterator[list[subprocess.Popen[str]]]:
    env = os.environ | {"KVSCOPE_RUN_DIR": str(rings)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, *words], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for words in (("p0", "kv_producer"), ("d0", "kv_consumer"))
    ]
    for process in started:
        assert process.stdout
        assert process.stdout.readline() == "there\n"
    yield started
    for process in started:
        process.kill()
        process.communicate()


def shown(collector: Collector) -> str:
    page = Page(100)
    put_overview(page, collector.step())
    return " ".join(" ".join(line.plain for line in page.lines).split())


def test_what_ends_and_what_is_switched_off_is_said(rings: Path, engines: list[subprocess.Popen[str]]) -> None:
    collector = Collector(Local(rings))
    prefill, _ = engines
    assert "P 1/1 D 1/1" in shown(collector)
    control.switch(rings, "d0", on=False)
    page = shown(collector)
    assert "D 0/1" in page
    assert "DATA in part" in page
    assert "d0 switched off" in page
    control.switch(rings, "d0", on=True)
    page = shown(collector)
    assert "D 1/1" in page
    assert "DATA in part" in page
    assert re.search(r" d0 off for [\d.]+ m?s until \d\d:\d\d:\d\d ", page)
    prefill.kill()
    prefill.wait()
    shown(collector)
    page = shown(collector)
    assert "P 0/1 D 1/1" in page
    assert "p0 ended" in page


@pytest.mark.usefixtures("engines")
def test_engines_that_record_elsewhere_are_named(rings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVSCOPE_RUN_DIR", str(rings))  # beside this user's own, others' tests record too
    page = shown(Collector(Local(rings.with_name("kvscope-0"))))
    assert f"engines record in {rings}: name it with --run-dir" in page
