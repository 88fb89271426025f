"""Sources told apart by what is in them, and read together."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvscope.cli import main
from kvscope.model.errors import InputError, NothingThereError
from kvscope.probe import layout
from kvscope.probe.recording import FILE_HEADER, FILE_MAGIC, RECORDS, Frames
from kvscope.sharing.share import Wishes, share
from kvscope.sources import open_sources
from kvscope.sources.past import open_past
from kvscope.sources.recorder import save

from ..live.scenes import Recording
from .conftest import ROOT, Start

PICTURES = ROOT / "docs" / "pictures"

LINE = json.dumps(
    {"t": 5, "engine": "r0", "leg": "router", "moment": "received", "request": "p0-request-0", "thread": "router"}
)


def test_rings_recordings_and_json_lines_together(run_dir: Path, start: Start, tmp_path: Path) -> None:
    start("p0").tell("write 20")
    save(run_dir, tmp_path / "a")
    start("d0").tell("write 10")
    (tmp_path / "r.jsonl").write_text(f"\n{LINE}\n")
    opened = open_sources([tmp_path / "r.jsonl", tmp_path / "a", run_dir])
    events = opened.events
    engines = [process.engine for process in events.processes]
    assert sorted(engines) == ["d0", "p0", "r0"]
    counts = {engines[index]: int((events.rows["process"] == index).sum()) for index in range(3)}
    assert counts == {"p0": 20, "d0": 10, "r0": 1}
    assert opened.duplicates == 20
    # The same id has the same key, whoever told it.
    router = events.rows[events.rows["process"] == engines.index("r0")]
    assert events.texts[int(router["request"][0])] == "p0-request-0"
    assert (events.rows["request"] == router["request"][0]).sum() == 11


def test_standard_input_is_told_apart_too(run_dir: Path, start: Start, tmp_path: Path) -> None:
    start("p0").tell("write 20")
    save(run_dir, tmp_path / "a")
    count = "from kvscope.sources import open_sources; print(len(open_sources(['-']).events))"
    for data, expected in (((tmp_path / "a").read_bytes(), "20"), (LINE.encode(), "1")):
        ran = subprocess.run([sys.executable, "-c", count], input=data, capture_output=True, check=True, cwd=ROOT)
        assert ran.stdout.decode().strip() == expected


def test_what_the_probe_dumps_is_a_recording(run_dir: Path, start: Start, tmp_path: Path) -> None:
    start("p0").tell("write 20")
    dumped = subprocess.run([sys.executable, "-m", "kvscope.probe", "dump", "-"], stdout=subprocess.PIPE, check=True)
    (tmp_path / "dump").write_bytes(dumped.stdout)
    opened = open_sources([tmp_path / "dump"])
    assert (len(opened.events), opened.notes) == (20, ())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty; name a recording"),
        (b"PNG nothing of ours", "neither a recording nor JSON lines"),
        (FILE_HEADER.pack(FILE_MAGIC, 99, 0), "recording of version 99.*read it with the kvscope that wrote it"),
        (FILE_HEADER.pack(FILE_MAGIC, 1, sys.byteorder != "big"), "other byte order"),
        (b'{"moment": 3}\n', ':1: "moment" is 3'),
        (b'{"version": 1}\n' * 20_000 + b'{"moment": "\xff"}\n', ":20001 is not UTF-8"),
        (
            b'{"t": "' + b"9" * 5000 + b'", "moment": "load", "engine": "p0"}\n',
            f':1: "t" is "{"9" * 59}\\.\\.; an integer',
        ),
        (b"\xef\xbb\xbf", "neither a recording nor JSON lines"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"file.*{said}|file{said}"):
        open_sources([path])


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n", b""])
def test_a_byte_order_mark_says_nothing(tmp_path: Path, before: bytes) -> None:
    """Some shells and editors put one before text."""
    path = tmp_path / "marked.jsonl"
    path.write_bytes(before + b'{"version": 1}\r\n{"t": 5, "engine": "p0", "moment": "load"}\r\n')
    opened = open_sources([path])
    assert (len(opened.events), opened.notes) == (1, ())


def test_moments_that_nobody_knows_are_listed_in_short(tmp_path: Path) -> None:
    path = tmp_path / "others.jsonl"
    path.write_text(LINE + "".join(f'\n{{"t": 5, "engine": "p0", "moment": "{n:02}{"x" * 500}"}}' for n in range(12)))
    (note,) = open_sources([path]).notes
    assert note.endswith(f"09{'x' * 58} (1) and 2 more")


def test_a_source_that_breaks_off_is_named() -> None:
    with pytest.raises(InputError, match="self/mem cannot be read: input/output error"):
        open_sources(["/proc/self/mem"])


def test_a_closed_standard_input_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["report", "-"]) == 2
    assert "standard input is closed" in capsys.readouterr().err


def test_rings_that_cannot_be_read_are_named_where_there_are_no_others(run_dir: Path) -> None:
    (run_dir / "1-1-ffffff.ring").write_bytes(b"nothing" * 4000)
    with pytest.raises(InputError, match=r"1-1-ffffff\.ring: not a ring file.*; nothing else is in"):
        open_sources([], run_dir)


def test_nothing_there_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NothingThereError, match=r"no rings in .*none; start an instrumented engine"):
        open_sources([], tmp_path / "none")
    with pytest.raises(InputError, match=r"there is no .*none; name a recording"):
        open_sources([tmp_path / "none"])
    with pytest.raises(InputError, match="no process has recorded anything in"):
        open_sources([tmp_path])


def test_a_ring_file_is_no_source_but_its_directory_is(run_dir: Path, start: Start) -> None:
    start("p0").tell("write 20")
    (ring,) = run_dir.glob("*.ring")
    with pytest.raises(InputError, match="name the directory that it is in"):
        open_sources([ring])


def test_the_rings_are_listed_and_dead_ones_cleaned(
    run_dir: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = start("gone")
    start("p0").tell("write 20")
    gone.tell("write 7 writer")
    gone.kill()
    words = ["--run-dir", str(run_dir)]
    assert main(["rings", *words]) == 0
    lines = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()}
    assert lines["p0"][2:5] == ["on", "1", "20"]
    assert lines["gone"][2:5] == ["dead", "1", "7"]
    assert main(["rings", "--clean", "--older-than", "1h", *words]) == 0
    assert len(list(run_dir.glob("*.ring"))) == 2
    assert main(["rings", "--clean", *words]) == 0
    assert len(list(run_dir.glob("*.ring"))) == 1
    assert main(["off", "nobody", *words]) == 3
    assert "these record here: p0" in capsys.readouterr().err


def test_a_damaged_ring_hides_no_other(run_dir: Path, start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    start("p0").tell("write 20")
    path = run_dir / "1-1-ffffff.ring"
    (sound,) = run_dir.glob("*.ring")
    whole = sound.read_bytes()
    path.write_bytes(whole[: layout.SEGMENT_TABLE_AT] + b"\1" * 8 + whole[layout.SEGMENT_TABLE_AT + 8 :])
    words = ["--run-dir", str(run_dir)]
    assert main(["rings", *words]) == 0
    told = capsys.readouterr()
    (row,) = told.out.splitlines()[1:]
    assert row.split()[:5] == ["p0", sound.name.partition("-")[0], "on", "1", "20"]
    assert f"{path}: cut short" in told.err


def test_a_ring_that_cannot_be_read_is_never_passed_over_in_silence(
    run_dir: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    (run_dir / "1-1-ffffff.ring").write_bytes(b"nothing" * 4000)
    words = ["--run-dir", str(run_dir)]
    for verb, code in (("on", 2), ("off", 2), ("rings --clean", 2), ("rings", 0)):
        assert main([*verb.split(), *words]) == code
        assert "1-1-ffffff.ring: not a ring file" in capsys.readouterr().err
    start("p0").tell("write 20")
    assert main(["off", *words]) == 0
    told = capsys.readouterr()
    assert "1-1-ffffff.ring: not a ring file" in told.err
    assert told.out.startswith("p0 ")


def test_the_age_of_rings_of_another_boot_is_not_known(
    run_dir: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their times are of another clock."""
    start("p0").tell("write 20")
    (sound,) = run_dir.glob("*.ring")
    raw = bytearray(sound.read_bytes())
    raw[layout.BOOT_ID_AT : layout.BOOT_ID_AT + 4] = b"else"
    (run_dir / "1-1-ffffff.ring").write_bytes(raw)
    assert main(["rings", "--run-dir", str(run_dir)]) == 0
    ages = {row.split()[2]: row.split()[-2] for row in capsys.readouterr().out.splitlines()[1:]}
    assert ages["dead"] == "-"
    assert ages["on"] == "s"


def test_a_recording_that_is_cut_before_its_first_event_is_told_by_every_reader_alike(tmp_path: Path) -> None:
    whole = (PICTURES / "pull.kvs").read_bytes()
    with open(PICTURES / "pull.kvs", "rb") as file:
        first = next(frame for frame in Frames(file) if frame.kind == RECORDS)
    path, out = tmp_path / "cut.kvs", tmp_path / "out.kvs"
    readers: tuple[Callable[[], object], ...] = (
        lambda: open_sources([path]),
        lambda: open_past([path], lambda share: None),
        lambda: share([path], out, Wishes()),
    )
    for size in (16, 17, first.at // 2, first.at, first.at + len(first.payload) - 1):
        path.write_bytes(whole[:size])
        for read in readers:
            with pytest.raises(InputError) as caught:
                read()
            assert str(caught.value) == (
                f"{path} ends before its first block of events does: it was cut, or is only beginning to be written;"
                f" no event can be read in {path}: copy it whole, or name another recording"
            )
    path.write_bytes(whole[: first.at + len(first.payload)])
    assert len(open_sources([path]).events)
    open_past([path], lambda share: None).close()
    assert share([path], out, Wishes()).records


def test_a_recording_that_was_ended_without_an_event_is_told_by_every_reader_alike(tmp_path: Path) -> None:
    path, out = tmp_path / "quiet.kvs", tmp_path / "out.kvs"
    with Recording(path) as recording:
        recording.process(0)
        recording.end()
    readers: tuple[Callable[[], object], ...] = (
        lambda: open_sources([path]),
        lambda: open_past([path], lambda share: None),
        lambda: share([path], out, Wishes()),
    )
    for read in readers:
        with pytest.raises(InputError) as caught:
            read()
        assert str(caught.value) == f"no process has recorded anything in {path}; name another recording"
    assert not out.exists()
    assert len(open_sources([path, PICTURES / "pull.kvs"]).events)


def test_why_nothing_was_recorded_is_told_though_nothing_was(tmp_path: Path) -> None:
    with Recording(tmp_path / "dark.kvs") as recording:
        recording.process(0, segments=0, note="vLLM 0.1 is not supported")
        recording.end()
    assert open_sources([tmp_path / "dark.kvs"]).events.processes[0].note
    share([tmp_path / "dark.kvs"], tmp_path / "shared.kvs", Wishes())
    assert open_sources([tmp_path / "shared.kvs"]).events.processes
