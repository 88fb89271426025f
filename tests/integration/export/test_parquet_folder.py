"""A Parquet folder is whole or refused, whatever happened while it was written and since."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kvscope.export.making import Making, beside
from kvscope.export.parquet.sink import ParquetSink
from kvscope.model.errors import InputError
from kvscope.sources.opening import open_all
from kvscope.sources.parquet.columns import EVENTS, PROCESSES, TABLES
from kvscope.sources.parquet.manifest import FILE, Entry, Manifest
from kvscope.sources.past import open_past

from ..live.conftest import until
from ..live.scenes import BEGIN, SECOND, Recording, steady
from ..sources.conftest import ROOT
from .trips import PICTURES, exported, report, tables

EARLY = PICTURES / "push-early.kvs"
NAMES = {FILE, *(table.file for table in TABLES)}
READ = (FILE, "events.parquet", "processes.parquet")
"""What reading the folder back needs."""


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "kvscope", "export", *map(str, words)]


def ran(*words: str | Path, before: Callable[[], object] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), cwd=ROOT, capture_output=True, text=True, preexec_fn=before, check=False)


def one_sentence(error: str) -> None:
    assert error.startswith("kvscope: ")
    assert error.count("\n") == 1
    assert "Traceback" not in error


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording whose export takes a second or so."""
    return steady(tmp_path_factory.mktemp("made") / "long.kvs", 100, 400)


def refused(folder: Path, *words: str) -> None:
    for opened in (lambda: open_all([folder], None), lambda: open_past([folder], lambda share: None)):
        with pytest.raises(InputError) as caught:
            opened()
        assert "\n" not in str(caught.value)
        assert any(word in str(caught.value) for word in words)


def test_every_bit_of_what_is_read_counts(tmp_path: Path) -> None:
    whole = tables(tmp_path / "whole", EARLY)
    draw = random.Random(7)
    for number in range(150):
        folder, name = tmp_path / f"{number}", READ[number % len(READ)]
        shutil.copytree(whole, folder)
        raw = bytearray((folder / name).read_bytes())
        if number % 5 == 4:
            del raw[draw.randrange(len(raw) - 1) :]  # without the last line end it says the same
        else:
            raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
        (folder / name).write_bytes(raw)
        refused(folder, "damaged", "not as it was written", "cut short", "version")
        shutil.rmtree(folder)


def test_what_is_missing_or_of_another_export_is_named(tmp_path: Path) -> None:
    whole, other = tables(tmp_path / "whole", EARLY), tables(tmp_path / "other", PICTURES / "pull.kvs")
    for name in READ:
        folder = tmp_path / f"without {name}"
        shutil.copytree(whole, folder)
        (folder / name).unlink()
        refused(folder, "is missing", "holds Parquet files but no export.json")
        shutil.copy(other / name, folder / name)
        refused(folder, "of another export")


def test_tables_of_other_tools_are_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    pq.write_table(pa.table({"t": [1, 2], "moment": ["a", "b"]}), foreign / EVENTS.file)
    refused(foreign, "or not of kvscope")
    whole = tables(tmp_path / "whole", EARLY)
    for case, table in enumerate((pa.table({"t": [1, 2]}), pq.read_table(whole / EVENTS.file).drop_columns("looked"))):
        folder = tmp_path / f"made to look right {case}"
        shutil.copytree(whole, folder)
        put_in_place(folder, EVENTS.file, table)
        refused(folder, "columns are missing or of another type")


def put_in_place(folder: Path, name: str, table: pa.Table) -> None:
    """In place of a file, as if the export had written it so."""
    pq.write_table(table, folder / name)
    raw = (folder / name).read_bytes()
    told = json.loads((folder / FILE).read_text())
    files = {name: Entry(**entry) for name, entry in told["files"].items()}
    files[name] = Entry(len(raw), zlib.crc32(raw), len(table))
    (folder / FILE).write_text(Manifest(files).text())


def test_an_export_that_tells_of_no_gaps_yet_has_none(tmp_path: Path) -> None:
    folder = tables(tmp_path / "earlier", EARLY)
    put_in_place(folder, PROCESSES.file, pq.read_table(folder / PROCESSES.file).drop_columns("gaps"))
    assert open_all([folder], None).events.processes == open_all([EARLY], None).events.processes


@pytest.mark.parametrize("name", READ)
def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = tables(tmp_path / "whole", EARLY)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    refused(folder, f"{name} cannot be read: not a regular file")


def test_one_table_alone_is_no_source(tmp_path: Path) -> None:
    folder = tables(tmp_path / "whole", EARLY)
    for opened in (
        lambda: open_all([folder / "events.parquet"], None),
        lambda: open_past([folder / "events.parquet"], print),
    ):
        with pytest.raises(InputError, match="name the folder that it is in"):
            opened()


def _held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_export_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    folder = tables(tmp_path / "there", PICTURES / "pull.kvs")
    before = _held(folder)
    done = ran(EARLY, "--parquet", folder)
    assert done.returncode == 2
    assert "holds an export already; name another folder, or add --force to replace it" in done.stderr
    one_sentence(done.stderr)
    assert _held(folder) == before
    assert ran(EARLY, "--parquet", folder, "--force").returncode == 0
    assert report(folder) == report(EARLY)
    assert {path.name for path in folder.iterdir()} == NAMES


@pytest.mark.parametrize("words", [(), ("--force",)], ids=["", "force"])
@pytest.mark.parametrize("export_too", [False, True])
def test_a_folder_with_other_things_is_never_written_to(
    tmp_path: Path, words: tuple[str, ...], export_too: bool
) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    if export_too:
        tables(folder, PICTURES / "pull.kvs")
    for name in (".profile", "mine.txt"):
        (folder / name).write_text("mine")
    before = _held(folder)
    done = ran(EARLY, "--parquet", folder, *words)
    assert done.returncode == 2
    assert (
        f"{folder} holds .profile and 1 more, which no export made: tables go into a folder of their own" in done.stderr
    )
    one_sentence(done.stderr)
    assert _held(folder) == before


def test_an_empty_folder_is_used_and_a_file_is_not(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert ran(EARLY, "--parquet", tmp_path / "empty").returncode == 0
    (tmp_path / "file").write_text("mine")
    for words in ((), ("--force",)):
        done = ran(EARLY, "--parquet", tmp_path / "file", *words)
        assert (done.returncode, (tmp_path / "file").read_text()) == (2, "mine")
        one_sentence(done.stderr)


@contextmanager
def nobody() -> Iterator[None]:
    """Root may write everywhere."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_place_that_cannot_be_written_is_said_before_anything_is_read(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == os.geteuid():
            os.chmod(above, above.stat().st_mode | 0o555)
    for place in (closed, closed / "new", tmp_path / "no" / "such"):
        with nobody(), pytest.raises(InputError, match=f"cannot write {place}: "):
            ParquetSink(place, False)
    assert list(closed.iterdir()) == []


def test_where_one_format_cannot_be_made_the_others_are_not_left_half_done(tmp_path: Path) -> None:
    done = ran(EARLY, "--parquet", tmp_path / "tables", "--jsonl", tmp_path / "no" / "such.jsonl")
    assert done.returncode == 2
    one_sentence(done.stderr)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing_and_keeps_what_was_there(tmp_path: Path, long: Path) -> None:
    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (15_000, 15_000))

    folder = tmp_path / "there"
    tables(folder, EARLY)
    for place, words in ((tmp_path / "new", ()), (folder, ("--force",))):
        done = ran(long, "--parquet", place, *words, before=small)
        assert done.returncode == 2
        assert "the file may not grow" in done.stderr
        one_sentence(done.stderr.splitlines(keepends=True)[-1])
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert {path.name for path in folder.iterdir()} == NAMES
    assert report(folder) == report(EARLY)


def stopped(folder: Path, long: Path, how: signal.Signals, draw: random.Random) -> tuple[int, str]:
    """(exit code, what it said) of an export that was stopped at some instant after it had begun to write."""
    words = command(long, "--parquet", folder)
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) as verb:
        part = beside(folder / EVENTS.file)
        until(lambda: verb.poll() is not None or part.exists(), "nothing is written")
        until(lambda: verb.poll() is not None or draw.random() < 0.05, "never")
        verb.send_signal(how)
        said = verb.communicate()[1]
        return verb.returncode, said


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_interrupted_it_leaves_nothing(tmp_path: Path, long: Path) -> None:
    draw, codes = random.Random(5), set[int]()
    for number in range(10):
        folder = tmp_path / f"{number}"
        code, said = stopped(folder, long, signal.SIGINT, draw)
        codes.add(code)
        assert "Traceback" not in said
        if said.endswith("kvscope: interrupted\n"):
            assert code == 130
            assert not folder.exists()
        else:  # it was done, and on its way out at most
            assert code in (0, 130, -signal.SIGINT)
            report(folder)
    assert 130 in codes


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_at_any_instant_it_is_whole_or_none_and_the_next_one_takes_its_place(tmp_path: Path, long: Path) -> None:
    draw, killed = random.Random(3), 0
    expected = report(long)
    for number in range(10):
        folder = tmp_path / f"{number}"
        stopped(folder, long, signal.SIGKILL, draw)
        if (folder / FILE).exists():
            assert report(folder) == expected
            continue
        killed += 1
        with pytest.raises(InputError):
            open_all([folder], None)
        assert ran(long, "--parquet", folder).returncode == 0
        assert {path.name for path in folder.iterdir()} == NAMES
        assert report(folder) == expected
    assert killed


def test_two_into_one_folder_take_no_turns(tmp_path: Path) -> None:
    first = ParquetSink(tmp_path / "there", False)
    with pytest.raises(InputError, match="another export goes into"):
        ParquetSink(tmp_path / "there", False)
    first.abandon()
    assert list(tmp_path.iterdir()) == []


def test_where_it_ends_early_a_file_that_is_made_is_gone(tmp_path: Path) -> None:
    making = Making(tmp_path / "a")
    making.write(b"half")
    making.abandon()
    making.abandon()
    assert list(tmp_path.iterdir()) == []


def test_of_a_stretch_in_which_nothing_happened_the_tables_are_empty(tmp_path: Path) -> None:
    with Recording(tmp_path / "a.kvs") as recording:
        recording.process(0)
        recording.records(0, [BEGIN, BEGIN + 100 * SECOND], "cmpl-a-0-aaaaaaaa")
        recording.end()
    done = ran(tmp_path / "a.kvs", "--from", "10s", "--to", "20s", "--parquet", tmp_path / "tables")
    assert done.returncode == 0, done.stderr
    assert "0 events" in done.stderr
    for table in TABLES:
        assert pq.read_table(tmp_path / "tables" / table.file).num_rows == (1 if table.name == "processes" else 0)
    assert json.loads(report(tmp_path / "tables"))["summary"]["condition"]["requests"] == 0


def test_a_recording_without_an_event_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with Recording(tmp_path / "a.kvs") as recording:
        recording.process(0)
        recording.end()
    done = ran(tmp_path / "a.kvs", "--parquet", tmp_path / "tables")
    assert done.returncode == 2
    one_sentence(done.stderr)
    assert not (tmp_path / "tables").exists()


def test_without_pyarrow_the_extra_is_named(tmp_path: Path) -> None:
    folder = tables(tmp_path / "whole", EARLY)
    for words in (["export", str(EARLY), "--parquet", str(tmp_path / "new")], ["report", str(folder)]):
        code = f"import sys; sys.modules['pyarrow'] = None; from kvscope.cli import main; sys.exit(main({words!r}))"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr == "kvscope: pyarrow is not installed here; run: pip install 'kvscope[export]'\n"


def test_pyarrow_is_loaded_where_such_a_folder_is_met_and_nowhere_else(tmp_path: Path) -> None:
    folder = tables(tmp_path / "whole", EARLY)
    for source, loaded in ((EARLY, False), (folder, True)):
        for read in (
            "opening import open_all; open_all([path], None)",
            "past import open_past; open_past([path], print)",
        ):
            code = f"import sys; path = {str(source)!r}; from kvscope.sources.{read}; print('pyarrow' in sys.modules)"
            done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
            assert done.stdout.splitlines()[-1] == str(loaded)


def test_a_folder_may_be_made_anew_of_itself(tmp_path: Path) -> None:
    folder = tables(tmp_path / "whole", EARLY)
    assert ran(folder, "--parquet", folder, "--force").returncode == 0
    assert report(folder) == report(EARLY)


def test_both_formats_of_one_passage(tmp_path: Path) -> None:
    said = exported([EARLY], tmp_path / "tables", tmp_path / "a.jsonl")
    assert said[0].startswith("4,438 events (")
    assert said[1] == f"4,438 events written to {tmp_path / 'a.jsonl'}"


def test_the_threads_that_stamped_a_step_are_told_apart(tmp_path: Path) -> None:
    table = pq.read_table(tables(tmp_path / "it", EARLY) / "steps.parquet").to_pylist()
    numbered = {(row["engine"], row["thread"], row["rank"], row["step"]) for row in table}
    assert len(numbered) == len(table)
    assert {row["thread"] for row in table} == {"core", "worker"}
    assert {row["thread"] for row in table if row["connector_ns"] is not None} == {"worker"}
