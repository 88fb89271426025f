"""Processes as engines have them: forked, spawned, with threads, switched, of other users."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvscope.probe import control, layout, reader
from kvscope.probe.recording import EndPart, RecordsPart, parts

from .conftest import Start, needs_root


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdin is not None
    process.stdin.write(words + "\n")
    process.stdin.flush()


def verb(run_dir: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "kvscope.probe", *arguments, "--run-dir", str(run_dir)]
    return subprocess.run(command, capture_output=True, timeout=60)


# Imports first: another user may not be able to read this Python.
AS_ANOTHER = """
import locale, os, shutil
from kvscope.probe.__main__ import main
user, group, *arguments = sys.argv[1:]
os.setgroups([])
os.setgid(int(group))
os.setuid(int(user))
sys.exit(main(arguments))
"""


def verb_as(start: Start, user: int, group: int, run_dir: Path, name: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a verb run by another user."""
    process = start(AS_ANOTHER, str(user), str(group), name, "--run-dir", str(run_dir))
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


FORKING = """
import os
describe({"engine": "p0"})
for number in range(3): record(1, 1, f"parent-{number}", 1, 0, number)
if os.fork() == 0:
    for number in range(5): record(1, 1, f"child-{number}", 1, 1, number)
    print(os.getpid(), flush=True)
    sys.stdin.readline()
    os._exit(0)
for number in range(3): record(1, 1, f"parent-{number}", 1, 0, number)
print(os.getpid(), flush=True)
sys.stdin.readline()
os.kill(os.getpid(), 9)
"""


def test_a_forked_child_records_in_a_file_of_its_own(start: Start, run_dir: Path) -> None:
    parent = start(FORKING)
    line(parent), line(parent)
    rings = {ring.header.pid: ring for ring in reader.list_rings(run_dir)}
    child = next(ring for pid, ring in rings.items() if pid != parent.pid)
    for ring, side, count in ((rings[parent.pid], 0, 6), (child, 1, 5)):
        raw, cursor, lost = ring.segments()[0].drain(0)
        bodies = [layout.BODY.unpack_from(raw, at + 8) for at in range(0, len(raw), layout.RECORD_BYTES)]
        assert ({body[12] for body in bodies}, cursor, lost) == ({side}, count, 0)
        assert (ring.alive, ring.engine) == (True, "p0")
    texts = {text for _, text in child.segments()[0].drain_texts(0)[0]}
    assert texts == {f"child-{number}" for number in range(5)}


def test_a_child_does_not_keep_its_parent_looking_alive(start: Start, run_dir: Path) -> None:
    parent = start(FORKING, stdin=subprocess.PIPE)
    line(parent), line(parent)
    rings = {ring.header.pid: ring for ring in reader.list_rings(run_dir)}
    parent.kill()
    parent.wait()
    child = next(ring for pid, ring in rings.items() if pid != parent.pid)
    assert (rings[parent.pid].alive, child.alive) == (False, True)


SPAWNING = """
import multiprocessing
def work(number):
    record(1, 1, "spawned", 1, number)
if __name__ == "__main__":
    record(1, 1, "first", 1, -1)
    from tests_spawned import work
    children = [multiprocessing.get_context("spawn").Process(target=work, args=(n,)) for n in range(2)]
    for child in children: child.start()
    for child in children: child.join()
"""


def test_spawned_processes_each_have_a_file(start: Start, run_dir: Path, tmp_path: Path) -> None:
    code = "from kvscope.probe.recorder import record\ndef work(number):\n    record(1, 1, 'spawned', 1, number)\n"
    (tmp_path / "tests_spawned.py").write_text(code)
    process = start(SPAWNING, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert process.communicate(timeout=60)[1] == ""
    values = []
    for ring in reader.list_rings(run_dir):
        raw, _, _ = ring.segments()[0].drain(0, final=True)
        values.append(layout.BODY.unpack_from(raw, 8)[12])
    assert sorted(values) == [-1, 0, 1]


THREADED = """
import threading
def work(side):
    for number in range(20000): record(1, 1, f"{side}-{number % 50}", 1, side, number)
threads = [threading.Thread(target=work, args=(side,)) for side in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_threads_do_not_disturb_each_other(start: Start, run_dir: Path) -> None:
    assert start(THREADED).communicate(timeout=60)[1] == ""
    (ring,) = reader.list_rings(run_dir)
    total = 0
    for segment in ring.segments():
        raw, cursor, lost = segment.drain(0, final=True)
        bodies = [layout.BODY.unpack_from(raw, at + 8) for at in range(0, len(raw), layout.RECORD_BYTES)]
        assert len(bodies) + lost == cursor
        for side in {body[12] for body in bodies}:
            numbers = [body[13] for body in bodies if body[12] == side]
            assert numbers == list(range(numbers[0], 20000))
        total += cursor
    assert total + ring.header.refused == 6 * 20000


LATE = """
import os, pathlib, threading
from kvscope.probe import process
process.RETRY_NS = 0
run_dir = pathlib.Path(os.environ["KVSCOPE_RUN_DIR"])
run_dir.rmdir()
run_dir.write_text("in the way")
half_way = threading.Barrier(7)
def work(side):
    for number in range(1500):
        record(1, 1, f"{side}-{number % 50}", 1, side, number)
        if number == 700: half_way.wait()
threads = [threading.Thread(target=work, args=(side,)) for side in range(6)]
for thread in threads: thread.start()
half_way.wait()
run_dir.unlink()
for thread in threads: thread.join()
"""


def test_threads_that_begin_before_the_directory_can_be_written_miss_no_count(start: Start, run_dir: Path) -> None:
    _, said = start(LATE).communicate(timeout=60)
    assert (said.count("\n"), "is not a directory; this process goes on without" in said) == (1, True)
    (ring,) = reader.list_rings(run_dir)
    kept = sum(segment.events.head() for segment in ring.segments())
    assert (kept + ring.header.refused, ring.header.refused >= 6 * 701) == (6 * 1500, True)


# As where files were patched on disk: the tracepoints are called whether the plugin was loaded or not.
SILENCED = """
from kvscope.probe import recorder
from kvscope.vllm.guard import tracepoint
recorder.note_uninstrumented("why")
record(1, 1, "a", 1, text("b"), peer="c", step=7)
tracepoint(lambda: print("looked"))()
print(recorder.is_on(), text("b") == -2**63)
"""


@pytest.mark.parametrize(
    ("told", "expected", "files"),
    [({"KVSCOPE": "off"}, "False True\n", 0), ({"KVSCOPE": "on"}, "looked\nTrue False\n", 1)],
)
def test_a_silent_process_looks_at_nothing_and_has_no_file(
    start: Start, run_dir: Path, told: dict[str, str], expected: str, files: int
) -> None:
    process = start(SILENCED, env={**os.environ, **told})
    assert process.communicate(timeout=60) == (expected, "")
    assert len(list(run_dir.iterdir())) == files


def test_loaded_without_an_event_it_leaves_no_file(start: Start, run_dir: Path) -> None:
    start("describe({'engine': 'p0'})").communicate(timeout=60)
    assert list(run_dir.iterdir()) == []


def test_a_process_that_is_not_instrumented_is_listed_while_it_lives(start: Start, run_dir: Path) -> None:
    code = (
        "from kvscope.probe.recorder import note_uninstrumented as n; n('unknown file'); print(1, flush=True); input()"
    )
    process = start(code)
    line(process)
    (ring,) = reader.list_rings(run_dir)
    assert (ring.alive, ring.header.note) == (True, "unknown file")
    assert b"note: unknown file" in verb(run_dir, "list").stdout
    process.communicate("\n", timeout=60)
    assert list(run_dir.iterdir()) == []


ASKED = """
describe({"engine": sys.argv[1]})
record(1, 1, None, 1)
print("ready", flush=True)
for words in sys.stdin:
    record(1, 1, None, 1)
    print("recorded", flush=True)
"""


def test_off_and_on_reach_running_processes_at_once(start: Start, run_dir: Path) -> None:
    engines = {name: start(ASKED, name) for name in ("p0", "d0")}
    heads = {}
    for switched, expected in (("off", 1), ("on", 2)):
        for process in engines.values():
            line(process) if switched == "off" else None
        assert verb(run_dir, switched, "p0").returncode == 0
        for process in engines.values():
            tell(process, "again")
            assert line(process) == "recorded"
        heads = {ring.engine: ring.segments()[0].events.head() for ring in reader.list_rings(run_dir)}
        assert heads["p0"] == expected
    assert heads["d0"] == 3
    assert verb(run_dir, "off", "nobody").returncode == 3


def test_dump_goes_through_a_pipe_and_clean_removes_the_dead(start: Start, run_dir: Path, tmp_path: Path) -> None:
    empty = verb(run_dir, "dump")
    assert (empty.returncode, empty.stderr.count(b"\n")) == (3, 1)
    start("for n in range(300): record(1, 1, f'r{n}', 1, n)").communicate(timeout=60)
    dumped = verb(run_dir, "dump", "-")
    kept = list(parts(io.BytesIO(dumped.stdout)))
    assert sum(len(part.raw) for part in kept if isinstance(part, RecordsPart)) == 300 * layout.RECORD_BYTES
    assert kept[-1] == EndPart({"processes": 1, "events": 300, "lost": 0})
    assert verb(run_dir, "dump", str(tmp_path / "none" / "file")).returncode == 2
    assert verb(run_dir, "clean", "--older-than", "1000").stdout == b""
    assert verb(run_dir, "clean").stdout.count(b"\n") == 1
    assert list(run_dir.iterdir()) == []


def test_its_words_and_its_output_may_go_nowhere(start: Start, run_dir: Path) -> None:
    start("record(1, 1, 'r', 1)").communicate(timeout=60)
    command = [sys.executable, "-m", "kvscope.probe"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "wb") as full:
        listed = subprocess.run([*command, "list"], stdout=full, stderr=subprocess.PIPE, env=env)
        dumped = subprocess.run([*command, "dump"], stdout=subprocess.PIPE, stderr=full, env=env)
    assert (listed.returncode, listed.stderr) == (2, b"kvscope: [Errno 28] No space left on device\n")
    assert (dumped.returncode, dumped.stdout[:7]) == (0, b"KVSCREC")
    closed = subprocess.run([*command, "dump"], stderr=subprocess.PIPE, env=env, preexec_fn=lambda: os.close(1))
    assert (closed.returncode, closed.stderr) == (2, b"kvscope: standard output is closed: name a file\n")


def test_the_probe_imports_the_standard_library_only(start: Start) -> None:
    code = (
        "import kvscope.probe.__main__, json; "
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules} - sys.stdlib_module_names)))"
    )
    assert set(json.loads(line(start(code)))) <= {"__main__", "kvscope", "sitecustomize", "_distutils_hack"} | {
        name for name in sys.modules if name.startswith(("__editable", "_virtualenv"))
    }


@needs_root
def test_another_user_s_run_dir_is_refused_in_one_sentence(start: Start, run_dir: Path) -> None:
    code, _, err = verb_as(start, 65534, 65534, run_dir, "list")
    assert (code, err.count("\n")) == (2, 1)
    assert "belongs to another user (uid 0)" in err


@needs_root
def test_it_does_not_write_where_another_user_could_have_laid_a_trap(start: Start, run_dir: Path) -> None:
    os.chown(run_dir, 65534, 65534)
    process = start("for n in range(9): record(1, 1, 'r', 1)\nprint('served')")
    out, err = process.communicate(timeout=60)
    assert (out, process.returncode, err.count("\n")) == ("served\n", 0, 1)
    assert err.startswith("kvscope: cannot record in")
    assert "belongs to another user (uid 65534)" in err
    assert list(run_dir.iterdir()) == []


@needs_root
def test_a_group_may_read_and_not_write(start: Start, run_dir: Path) -> None:
    nested = run_dir / "rings"
    process = start(ASKED, "p0", env={**os.environ, "KVSCOPE_GROUP": "65534", "KVSCOPE_RUN_DIR": str(nested)})
    line(process)
    run_dir.chmod(0o755)
    (path,) = nested.iterdir()
    assert [oct(each.stat().st_mode & 0o777) for each in (nested, path)] == ["0o750", "0o640"]
    code, out, _ = verb_as(start, 65533, 65534, nested, "list")
    assert (code, out.split()[1:3]) == (0, ["p0", "on"])
    code, _, err = verb_as(start, 65533, 65534, nested, "off")
    assert (code, "cannot be switched: Permission denied" in err, err.count("\n")) == (2, True, 1)
    assert control.switch(nested, None, on=False)[0].engine == "p0"


@needs_root
def test_one_that_may_not_be_switched_does_not_keep_the_others_from_it(start: Start, run_dir: Path) -> None:
    for name in ("p0", "d0", "d1"):
        line(start(ASKED, name))
    rings = {ring.engine: ring for ring in reader.list_rings(run_dir)}
    run_dir.chmod(0o755)
    for name, mode in (("p0", 0o644), ("d0", 0o666), ("d1", 0o600)):
        rings[name].path.chmod(mode)
    code, out, err = verb_as(start, 65533, 65534, run_dir, "off")
    assert (code, out.split()[1:]) == (2, ["d0", "off"])
    said = err.splitlines()
    assert [str(rings[name].path) in each for name, each in zip(("d1", "p0"), said, strict=True)] == [True, True]
    assert {name: ring.header.on for name, ring in rings.items()} == {"p0": True, "d0": False, "d1": True}
