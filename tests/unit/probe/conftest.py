"""A probe that records into a folder of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvscope.probe import recorder
from kvscope.probe.process import Process
from kvscope.probe.reader import RingFile, list_rings


class Probe:
    """This process's probe, made new, and what a reader sees of it."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir

    def ring(self) -> RingFile:
        (ring,) = list_rings(self.run_dir)
        return ring


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Probe]:
    monkeypatch.setenv("KVSCOPE_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("KVSCOPE_RING_EVENTS", "256")
    for name in ("KVSCOPE_SHM_BYTES", "KVSCOPE_RESERVE", "KVSCOPE_GROUP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(recorder, "_process", Process({}))
    monkeypatch.setattr(recorder, "_main_role", 0)
    recorder.here.__dict__.clear()
    yield Probe(tmp_path / "run")
    recorder.here.__dict__.clear()
