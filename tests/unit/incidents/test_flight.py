"""A flight recorder goes on, whatever one batch may hold."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path
from typing import cast

import pytest

from kvscope.core.stream import Stream
from kvscope.incidents.flight import Flight, Plan
from kvscope.incidents.folder import Folder
from kvscope.incidents.memory import Memory
from kvscope.incidents.triggers import parsed
from kvscope.incidents.watching import Watch
from kvscope.live.feed import Batch
from kvscope.model.errors import InputError
from kvscope.model.splits import Splits

from ..core.scene import events_of


def test_a_fault_in_judging_is_said_once_and_ends_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    flight = Flight(Memory(10), Folder(tmp_path / "saved"), Plan((parsed("ttft>1s"),)), said.append)
    batch, (answered, waiting) = Batch(events_of([]), 0), Stream().look()
    for _ in range(3):
        flight.observe(batch, [cast(Splits, None)], answered, waiting)
    assert len(said) == 1
    assert "triggers could not be judged" in said[0]
    flight.signalled("SIGUSR1")
    flight.observe(batch, [], answered, waiting)
    flight.close()
    assert flight.counts == {"saved": 1, "joined": 0, "suppressed": 0, "failed": 0}


def test_one_that_is_larger_than_the_quota_is_a_fault_until_one_is_whole(tmp_path: Path) -> None:
    folder, said = Folder(tmp_path / "saved", quota=100), list[str]()
    flight = Flight(Memory(10), folder, Plan(after_s=0), said.append)
    assert flight.ask("test", "")["outcome"] == "begun"
    flight.close()
    assert (flight.counts["saved"], flight.counts["failed"]) == (0, 1)
    reason = "one takes more than --quota, 100 B, and was cut short"
    assert flight.fault == f"incidents cannot be saved into {folder.path}: {reason}"
    assert not flight.savable
    assert said[-1].endswith("no event, then the quota left no room for more")
    folder = Folder(tmp_path / "saved")
    flight = Flight(Memory(10), folder, Plan(after_s=0), said.append)
    flight.ask("test", "")
    flight.close()
    assert (flight.counts["failed"], flight.fault, flight.savable) == (0, "", True)


def test_each_one_that_is_begun_ends_with_a_line_and_only_whole_ones_count_as_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[str]()
    flight = Flight(Memory(10), Folder(tmp_path / "saved"), Plan(after_s=0), said.append)
    assert flight.counts["saved"] == 0

    def full(*told: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patched:
        patched.setattr("kvscope.incidents.saving.Splice.end", full)
        paths = []
        for _ in range(2):
            flight.ask("test", "")
            (begun,) = flight._saving
            begun.close()
            paths.append(begun.path)
    assert flight.counts == {"saved": 0, "joined": 0, "suppressed": 0, "failed": 2}
    for path in paths:
        (ended,) = [line for line in said if str(path) in line and "saving until" not in line]
        assert ended.endswith("could not be saved whole: no room; nothing of it is kept")
    flight.ask("test", "")
    flight.close()
    assert flight.counts == {"saved": 1, "joined": 0, "suppressed": 0, "failed": 2}


def test_a_disk_that_does_not_answer_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, on = threading.Event(), threading.Event()

    class Hanging(Folder):
        def looked_at(self) -> str:
            hangs.set()
            on.wait(60)
            return ""

    monkeypatch.setattr("kvscope.incidents.watching.PATIENCE_S", 0)
    watch = Watch(Hanging(tmp_path), lambda text: None)
    assert hangs.wait(60)
    try:
        assert watch.fault == f"incidents cannot be saved into {tmp_path}: the disk does not answer"
    finally:
        on.set()
        watch.close()
    assert watch.fault == ""


def test_what_went_wrong_is_over_once_the_folder_can_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvscope.incidents.watching.EVERY_S", 0.01)
    tried = threading.Event()

    class Full(Folder):
        def tried(self) -> str:
            if tried.is_set():
                return super().tried()
            tried.set()
            return "the quota is used up"

    watch = Watch(Full(tmp_path), lambda text: None)
    assert watch.failed("the quota is used up")
    assert not watch.failed("the quota is used up")
    assert watch.fault.endswith("the quota is used up")
    end = time.monotonic() + 60
    while watch.fault and time.monotonic() < end:
        tried.wait()
    watch.close()
    assert (watch.fault, list(tmp_path.iterdir())) == ("", [])


def test_a_folder_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"--save-to .*file: it is no folder; name another folder"):
        Folder(tmp_path / "file")
