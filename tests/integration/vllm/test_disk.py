"""On disk: whole or not at all, byte for byte reversible, and repairable when killed half way."""

from __future__ import annotations

import fcntl
import os
import py_compile
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kvscope.cli import main
from kvscope.model.errors import InputError
from kvscope.vllm import disk, installation, journal, patchfile

from .conftest import FILES, ROOT

Snapshot = dict[str, tuple[bytes, int, int]]


def look(base: Path) -> installation.Survey:
    return installation.survey(base.parent / "patches", base)


def apply(base: Path) -> tuple[str, ...]:
    return disk.apply(base.parent / "patches", base).paths


def revert(base: Path) -> tuple[str, ...]:
    return disk.revert(base.parent / "patches", base).paths


def snapshot(base: Path) -> Snapshot:
    """Contents, mode and modification time of everything but byte code."""
    files = [f for f in base.rglob("*") if f.is_file() and "__pycache__" not in f.parts]
    return {str(f): (f.read_bytes(), f.stat().st_mode, f.stat().st_mtime_ns) for f in files}


def test_apply_then_revert_leaves_no_trace(base: Path) -> None:
    os.chmod(base / "vllm/v1/queue.py", 0o640)
    os.utime(base / "vllm/v1/core.py", ns=(1_000_000_001, 2_000_000_003))
    before = snapshot(base)
    assert apply(base) == ("vllm/v1/core.py", "vllm/v1/queue.py")
    assert disk.describe(look(base)) == "patched"
    assert "_kvs.released(self, request)" in (base / "vllm/v1/queue.py").read_text()
    assert (base / "vllm/v1/queue.py").stat().st_mode & 0o777 == 0o640
    assert apply(base) == ()
    assert len(revert(base)) == 2
    assert snapshot(base) == before


def test_a_changed_file_is_refused_by_name_and_nothing_is_touched(base: Path) -> None:
    with (base / "vllm/v1/queue.py").open("a") as file:
        file.write("# mine\n")
    before = snapshot(base)
    with pytest.raises(InputError, match=r"vllm/v1/queue\.py has SHA-256 [0-9a-f]{64}, expected [0-9a-f]{64}"):
        apply(base)
    assert snapshot(base) == before


def test_a_file_changed_after_apply_is_not_reverted_over(base: Path) -> None:
    apply(base)
    with (base / "vllm/v1/queue.py").open("a") as file:
        file.write("# mine\n")
    before = snapshot(base)
    with pytest.raises(InputError, match=r"cannot revert: .*vllm/v1/queue\.py"):
        revert(base)
    assert snapshot(base) == before


KILLED = """
import os, sys
from pathlib import Path
from kvscope.vllm import disk, replacement
rename, most = replacement._rename, int(sys.argv[3])
done = []
def until_killed(origin, target, named):
    if target.suffix == ".py":
        done.append(target)
        if len(done) > most:
            os._exit(9)
    rename(origin, target, named)
replacement._rename = until_killed
getattr(disk, sys.argv[2])(Path(sys.argv[1]).parent / "patches", Path(sys.argv[1]))
"""


def killed(base: Path, verb: str, after: int) -> None:
    """Kill it before it has put more than so many files in place."""
    words = [sys.executable, "-c", KILLED, str(base), verb, str(after)]
    ended = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
    assert ended.returncode == 9


@pytest.mark.parametrize("verb", ["apply", "revert"])
@pytest.mark.parametrize("repair", ["apply", "revert"])
def test_killed_between_two_files_it_can_go_on_or_back(base: Path, verb: str, repair: str) -> None:
    before = snapshot(base)
    if verb == "revert":
        apply(base)
    killed(base, verb, after=1)
    assert "in part (1 of 2 files)" in disk.describe(look(base))
    if repair == "apply":
        assert len(apply(base)) == 1
        assert disk.describe(look(base)) == "patched"
    revert(base)
    assert snapshot(base) == before


@pytest.mark.parametrize("after", [0, 1])
def test_what_a_kill_left_beside_the_files_is_cleared(base: Path, after: int) -> None:
    before = snapshot(base)
    killed(base, "apply", after)
    assert list(base.rglob("*.kvscope.*"))
    # An earlier kvscope named it by its process: another one has that number some day.
    (base / f"vllm/v1/queue.py.kvscope.{os.getpid()}").touch()
    apply(base)
    assert not list(base.rglob("*.kvscope.*"))
    revert(base)
    assert snapshot(base) == before


def words(verb: str, base: Path) -> list[str]:
    return ["patch", verb, "--vllm", str(base / "vllm"), "--patches", str(base.parent / "patches")]


def command(verb: str, base: Path) -> list[str]:
    return [sys.executable, "-m", "kvscope", *words(verb, base)]


def waits_for_a_lock(process: subprocess.Popen[str]) -> bool:
    told = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return any(line[1] == "->" and line[5] == str(process.pid) for line in told)


def test_two_at_once_are_one_after_the_other(base: Path) -> None:
    before = snapshot(base)
    folder = os.open(base / "vllm", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    both = [subprocess.Popen(command("apply", base), cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    pause = threading.Event()
    try:
        while not all(map(waits_for_a_lock, both)):
            assert [process.poll() for process in both] == [None, None]
            pause.wait(0.01)
    finally:
        os.close(folder)
        told = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(line.partition(": ")[2] for line in told) == [
        "0 files patched, 2 in all\n",
        "2 files patched, 2 in all\n",
    ]
    assert len(revert(base)) == 2
    assert snapshot(base) == before


@pytest.mark.parametrize("verb", ["apply", "revert"])
def test_where_there_is_no_room_for_one_file_all_stay_as_they_were(base: Path, verb: str) -> None:
    if verb == "revert":
        apply(base)
    before = snapshot(base)
    sizes = {path: len(data) for path, (data, *_) in before.items() if Path(path).name in ("core.py", "queue.py")}
    room = max(sizes.values()) - 1  # for one of the two

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    ran = subprocess.run(command(verb, base), cwd=ROOT, capture_output=True, text=True, preexec_fn=limit, check=False)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert f"cannot replace {base}/vllm/v1/queue.py: file too large; nothing was changed" in ran.stderr
    assert snapshot(base) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a file")
def test_what_cannot_be_put_in_place_undoes_what_was(base: Path) -> None:
    py_compile.compile(str(base / "vllm/v1/core.py"), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    everything = {path: path.stat().st_mtime_ns for path in base.rglob("*") if path.is_file()}
    mounted = base / "vllm/v1/queue.py"
    script = 'mount --bind "$0" "$0" && exec "$@"'
    there = ["unshare", "--mount", "sh", "-c", script, str(mounted)]
    ran = subprocess.run([*there, *command("apply", base)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert f"cannot replace {mounted}: device or resource busy; nothing was changed" in ran.stderr
    assert {path: path.stat().st_mtime_ns for path in base.rglob("*") if path.is_file()} == everything


DAMAGED = [
    b"[1, 2]",
    b'{"times": []}',
    b'{"times": {"vllm/v1/core.py": 5}}',
    b'{"times": {"vllm/v1/core.py": [1]}}',
    b'{"times": {"vllm/v1/core.py": ["1", "2"]}}',
    b'{"times": {"vllm/v1/core.py": [1, 1e400]}}',
    b'{"times": {"vllm/v1/core.py": [1, 99999999999999999999999]}}',
    b'{"other": {}}',
    b'{"times": ',
    b"\xff\xfe",
    b"[" * 100_000,
]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_journal_is_named_with_what_to_do(
    base: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    apply(base)
    path = base / "vllm" / journal.NAME
    path.write_bytes(content)
    before = snapshot(base)
    assert main(words("revert", base)) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{path} is not as kvscope wrote it; remove it" in said
    assert snapshot(base) == before
    path.unlink()
    assert len(revert(base)) == 2


@pytest.mark.parametrize("name", ["v1/queue.py", "_version.py", journal.NAME])
@pytest.mark.parametrize("verb", ["status", "apply", "check", "revert"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(base: Path, verb: str, name: str) -> None:
    path = base / "vllm" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    ran = subprocess.run(command(verb, base), cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    if name == "v1/queue.py":
        assert ran.returncode == (1 if verb == "status" else 2)
        assert f"{path} is not a regular file" in ran.stdout + ran.stderr
    elif name == journal.NAME and verb in ("apply", "revert"):
        assert (ran.returncode, ran.stderr) == (2, f"kvscope: cannot use {path}: not a regular file\n")
    else:
        assert (ran.returncode, ran.stderr) == (0, "")


def test_an_installers_hard_link_keeps_its_contents(base: Path) -> None:
    cached = base.parent / "cached.py"
    os.link(base / "vllm/v1/queue.py", cached)
    apply(base)
    assert cached.read_text() == FILES["v1/queue.py"]


def test_a_symbolic_link_is_refused(base: Path) -> None:
    real = base.parent / "real.py"
    (base / "vllm/v1/queue.py").rename(real)
    (base / "vllm/v1/queue.py").symlink_to(real)
    with pytest.raises(InputError, match="symbolic link"):
        apply(base)
    assert real.read_text() == FILES["v1/queue.py"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_installation_is_refused_in_one_sentence(base: Path) -> None:
    os.chmod(base / "vllm/v1", 0o555)
    try:
        with pytest.raises(InputError, match="read-only"):
            apply(base)
    finally:
        os.chmod(base / "vllm/v1", 0o755)


def names_of_put(base: Path) -> str:
    program = "import vllm.v1.queue as q; print(q.Queue.put.__code__.co_names)"
    environment = {**os.environ, "PYTHONPATH": f"{base}{os.pathsep}{ROOT}"}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True).stdout


@pytest.mark.parametrize("mode", list(py_compile.PycInvalidationMode))
def test_byte_code_never_hides_what_was_done(base: Path, mode: py_compile.PycInvalidationMode) -> None:
    py_compile.compile(str(base / "vllm/v1/queue.py"), invalidation_mode=mode)
    apply(base)
    assert "_kvs" in names_of_put(base)
    revert(base)
    assert names_of_put(base) == "()\n"


def test_byte_code_put_aside_by_a_run_that_was_killed_is_put_back(base: Path) -> None:
    py_compile.compile(str(base / "vllm/v1/queue.py"), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    before = sorted(base.rglob("*"))
    killed(base, "apply", after=0)
    assert len(list(base.rglob("*.pyc.kvscope"))) == 1
    assert revert(base) == ()
    assert sorted(base.rglob("*")) == before


def test_a_file_that_was_empty_is_empty_again(base: Path) -> None:
    hunk = patchfile.Hunk(0, ("x = 1",), patchfile.Anchor("f", "-", "-", 1, 1, "-"))
    patch = patchfile.Patch("vllm/v1/empty.py", patchfile.digest(b""), ("1.0.0",), (hunk,))
    patched = patchfile.apply(patch, b"")
    assert installation.File(patch, base, patched, installation.PATCHED).stock() == b""


def test_the_command_line_says_where_it_stands(base: Path) -> None:
    def kvscope(verb: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command(verb, base), cwd=ROOT, capture_output=True, text=True, check=False)

    assert "as released" in kvscope("status").stdout
    assert "2 files patched, 2 in all" in kvscope("apply").stdout
    assert "patched" in kvscope("status").stdout
    checked = kvscope("check")
    assert (checked.returncode, "0 findings" in checked.stdout) == (0, True), checked
    assert "2 files reverted" in kvscope("revert").stdout
    (base / "vllm/v1/core.py").write_text("x = 1\n")
    refused = kvscope("apply")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "vllm/v1/core.py has SHA-256" in refused.stderr
