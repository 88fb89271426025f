"""Stacks that are given away: what everybody has is told, what is one's own is not, and they fit the recording."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from kvscope.model.errors import InputError
from kvscope.sharing.folder import RECORDING, share_folder
from kvscope.sharing.known import known
from kvscope.sharing.share import Wishes
from kvscope.sharing.stacks import FILE, UNTOLD
from kvscope.sources.opening import open_all
from kvscope.stacks.reading import read_stacks
from kvscope.stacks.writing import StacksFile
from tests.unit.core.scene import MS, events_of, push_early

from .marked import WINDOW, Marks
from .written import write

OURS = ("run_busy_loop (vllm/v1/engine/core.py:99)", "wait (threading.py:320)", "<lambda> (asyncio/base_events.py)")


def profiled(folder: Path, marks: Marks, boot: str = "boot") -> Path:
    """A folder as `kvscope profile` makes it."""
    folder.mkdir()
    write(events_of(push_early()), folder / RECORDING)
    file = StacksFile(folder / FILE, {"period_ns": 10 * MS, "boot_id": boot, "tool": f"py-spy 0.4.1 {marks.word()}"})
    file.note(marks.text())
    frames = (*OURS, f"{marks.word()} (/srv/{marks.word()}/run.py:3)", f"f ({marks.word()}/x.py:1)", marks.text())
    for name in ("MainThread", f"Thread-3 ({marks.word()})", marks.text(), "nixl-push-writer"):
        thread = file.thread(
            marks.number(), marks.number(), name, "p0", "core" if name == "MainThread" else marks.text()
        )
        file.sample(50 * MS, thread, file.stack(frames), True, None, False)
        file.sample(51 * MS, thread, file.stack(frames[:2]), False, True, True)
    file.clock(marks.numbers[0], 0, 60 * MS, 1000)
    file.close()
    return folder


def test_what_is_one_s_own_is_not_told(tmp_path: Path) -> None:
    marks = Marks(random.Random(1))
    folder = profiled(tmp_path / "it", marks)
    out = tmp_path / "out"
    shared = share_folder([folder], out, Wishes())
    raw = (out / FILE).read_text()
    assert not [text for text in marks.texts for at in range(len(text) - WINDOW + 1) if text[at : at + WINDOW] in raw]
    assert not [number for number in marks.numbers if str(number) in raw]
    assert shared.samples == 8
    assert any("1 lines of" in note for note in shared.notes)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it", "out"]


def test_what_is_everybody_s_is_and_at_its_time(tmp_path: Path) -> None:
    marks = Marks(random.Random(2))
    folder = profiled(tmp_path / "it", marks)
    for wishes in (Wishes(), Wishes(secret=b"k" * 32)):
        out = tmp_path / f"out-{wishes.secret is None}"
        share_folder([folder], out, wishes)
        stacks, events = read_stacks(out / FILE), open_all([out / RECORDING], None).events
        assert stacks.notes == ()
        assert stacks.frames == ((*OURS, UNTOLD, UNTOLD, UNTOLD), OURS[:2])
        assert [thread.name for thread in stacks.threads] == ["MainThread", "Thread-3", "", "nixl-push-writer"]
        assert [thread.role for thread in stacks.threads] == ["core", "unknown", "unknown", "unknown"]
        assert {thread.engine for thread in stacks.threads} <= {process.engine for process in events.processes}
        assert {stacks.boot_id[:8]} == {process.host for process in events.processes}
        assert int(stacks.samples["t"].min()) - int(events.rows["t"].min()) == 50 * MS
        assert stacks.samples["gil"].tolist() == [1] * 4 + [0] * 4


@pytest.mark.parametrize(
    "frame",
    [
        "f (/srv/vllm/x.py:1)",
        "f (acme/x.py:1)",
        "f (vllm/../acme.py:1)",
        "f (vllm_acme/x.py)",
        "f",
        "f (g) (vllm/x.py:1)",
        "f (vllm/x y.py:1)",
    ],
)
def test_a_frame_of_one_s_own(frame: str) -> None:
    assert known("frame", frame) is None


def test_what_does_not_fit_is_one_sentence(tmp_path: Path) -> None:
    marks = Marks(random.Random(3))
    folder, other = profiled(tmp_path / "it", marks), profiled(tmp_path / "other", marks, boot="another")
    (tmp_path / "plain").mkdir()
    write(events_of(push_early()), tmp_path / "plain" / RECORDING)
    broken = profiled(tmp_path / "broken", marks)
    (broken / FILE).write_text(
        json.dumps({"note": "x"}) + "\n" + json.dumps({"clock": 1, "from": 1, "to": 2, "error_ns": 1})
    )
    for paths, out, reason in (
        ([other], "out", "is of another host than the recording"),
        ([tmp_path / "plain"], "out", "takes one folder with a stacks.jsonl, and none was named"),
        ([folder, other], "out", "and 2 was named"),
        ([folder], "other", "is there already"),
        ([folder], "no/out", "cannot write"),
        ([broken], "out", "holds no sampled stacks"),
    ):
        with pytest.raises(InputError, match=reason):
            share_folder(paths, tmp_path / out, Wishes())
        assert not (tmp_path / "out").exists()
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
