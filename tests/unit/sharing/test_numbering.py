"""Parts of one recording are told of as the whole would have been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvscope.model.errors import InputError
from kvscope.probe.heading import heading
from kvscope.probe.recording import Writer
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


def test_what_two_recordings_hold_is_not_put_into_one(tmp_path: Path) -> None:
    """Readers drop what files hold twice; within one they could not."""
    folder = parts(tmp_path / "parts")
    (copy := tmp_path / "copy.kvs").write_bytes(sorted(folder.iterdir())[0].read_bytes())
    out, told = tmp_path / "out.kvs", list[float]()
    with pytest.raises(InputError, match=r"part-000001.kvs and .*copy.kvs hold the same process"):
        share([folder, copy], out, Wishes(), told=told.append)
    assert told == []  # before it goes through any of it
    assert not out.exists()
    key = Wishes(secret=b"k" * 32)
    apart = [tmp_path / "one.kvs", tmp_path / "other.kvs"]
    for path, shared in zip((folder, copy), apart, strict=True):
        share([path], shared, key)
    before, after = open_all([folder, copy], None), open_all(apart, None)
    assert after.duplicates == before.duplicates == 50
    assert len(after.events) == len(before.events) == 150
