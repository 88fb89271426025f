"""Parts of one recording are told of as the whole would have been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvscope.probe.heading import heading
from kvscope.probe.recording import Writer
from kvscope.probe.texts import encoded
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE
from kvscope.sharing.share import Wishes, share
from kvscope.sources.opening import open_all
from kvscope.sources.past import open_past
from kvscope.sources.records import RECORD
from kvscope.sources.standalone import Standalone


def rows(first: int, count: int) -> bytes:
    found = np.zeros(count, RECORD)
    found["sequence"] = np.arange(first, first + count)
    found["t"] = 10**9 + np.arange(first, first + count) * 10**6
    found["moment"], found["leg"], found["request"] = MOMENT_CODE["taken"], LEG_CODE["decode"], 7
    return found.tobytes()


def info(**more: Any) -> dict[str, Any]:
    return {"boot_id": "boot", "pid": 1, "start_ticks": 2, "segments": 1, "started": {"engine": "d0"}} | more


def parts(folder: Path, dropped: int = 0) -> Path:
    """Three parts of a process that lost something in each."""
    folder.mkdir()
    names = iter(folder / f"part-{number:06}.kvs" for number in range(1, 9))
    files = []

    def begin() -> Writer:
        files.append(open(next(names), "wb"))  # noqa: SIM115 - closed below
        writer = Writer(files[-1])
        writer.head(heading("one", len(files)))
        return writer

    writer = Standalone(begin)
    for number, lost in enumerate((2, 5, 5)):
        if number:
            writer.turn()
        writer.process(0, info(lost=lost, earlier=11))
        writer.records(0, 0, rows(100 * number + 1, 50))
    writer.end({})
    for file in files:
        file.close()
    for path in sorted(folder.iterdir())[:dropped]:
        path.unlink()
    return folder


@pytest.mark.parametrize("dropped", [0, 1])
def test_losses_add_up(tmp_path: Path, dropped: int) -> None:
    folder, out = parts(tmp_path / "parts", dropped), tmp_path / "out.kvs"
    share([folder], out, Wishes())
    (before,), (after,) = (open_all([path], None).events.processes for path in (folder, out))
    assert (after.lost, after.earlier) == (before.lost, before.earlier)
    assert before.lost == 5 - 2 * dropped
    past = open_past([out], lambda share: None)
    try:
        (seen,) = past.between(past.begin - 1, past.end).processes
        assert (seen.lost, seen.earlier) == (before.lost, before.earlier)
    finally:
        past.close()


@pytest.mark.parametrize("ids", ["hash", "drop", "keep"])
def test_what_two_recordings_hold_is_counted_once_when_they_are_put_into_one(tmp_path: Path, ids: str) -> None:
    folder = parts(tmp_path / "parts")
    (copy := tmp_path / "copy.kvs").write_bytes(sorted(folder.iterdir())[0].read_bytes())
    share([folder, copy], tmp_path / "out.kvs", Wishes(ids=ids))
    before, after = open_all([folder, copy], None), open_all([tmp_path / "out.kvs"], None)
    assert after.duplicates == before.duplicates == 50
    assert [note for note in after.notes if "rounded" not in note] == list(before.notes)
    assert len(after.events) == len(before.events) == 150


def restarted(folder: Path, again: int) -> Path:
    """Parts of a recorder that was started again when its process had recorded 100, and could read from `again` on."""
    folder.mkdir()
    for number, (first, end) in enumerate(((1, 101), (again, 301)), 1):
        with open(folder / f"part-{number:06}.kvs", "wb") as file:
            writer = Writer(file)
            writer.head(heading(f"recorder {number}"))
            writer.process(0, info(earlier=first - 1))
            writer.texts([(encoded("cmpl-x")[1], "cmpl-x")])
            writer.records(0, 0, rows(first, end - first))
            if number == 2:
                writer.end({})
    return folder


@pytest.mark.parametrize("again", [1, 61, 101, 161])
def test_a_folder_whose_recorder_was_started_again_is_shared_and_says_the_same(tmp_path: Path, again: int) -> None:
    folder, out = restarted(tmp_path / "parts", again), tmp_path / "out.kvs"
    share([folder], out, Wishes())
    before, after = (open_all([path], None) for path in (folder, out))
    assert len(after.events) == len(before.events) == 300 - max(0, again - 101)
    assert after.duplicates == before.duplicates == max(0, 101 - again)
    (was,), (now,) = before.events.processes, after.events.processes
    assert (now.lost, now.earlier) == (was.lost, was.earlier)
    assert [gap.events for gap in now.gaps] == [gap.events for gap in was.gaps] == [60] * (again == 161)
    past = open_past([out], lambda share: None)
    try:
        assert len(past.whole(past.begin - 1, past.end)) == len(after.events)
        (seen,) = past.processes
        assert [gap.events for gap in seen.gaps] == [60] * (again == 161)
    finally:
        past.close()
