"""`kvscope profile` as it is typed: what it leaves, and what it says where something is in its way."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvscope.stacks.reading import read_stacks

from ..probe.conftest import needs_root
from .conftest import ROOT, Work, stop, until

NOBODY = 65534


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "kvscope", "profile", *map(str, words)]


def typed(*words: str | Path, **popen: object) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command(*words), **{"capture_output": True, "text": True, "timeout": 120, "env": environ, **popen}
    )


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an earlier profile, of a process that has ended since."""
    folder = tmp_path_factory.mktemp("profiled")
    run_dir, log = folder / "run", folder / "log"
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "KVSCOPE_RUN_DIR": str(run_dir)}
    script = ROOT / "tests" / "scripts" / "profiled_process.py"
    worked = subprocess.Popen(
        [sys.executable, str(script), "p0", str(log), "spinner"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ,
    )  # fmt: skip
    assert worked.stdout is not None
    worked.stdout.readline()
    try:
        done = typed("--run-dir", run_dir, "--for", "2s", "-o", folder / "profile")
        assert done.returncode == 0, done.stderr
    finally:
        worked.kill()
        worked.communicate()
    return folder / "profile"


def test_a_folder_with_moments_and_stacks_is_left(known: Path) -> None:
    assert {path.name for path in known.iterdir()} == {"recording.kvs", "stacks.jsonl"}
    assert len(read_stacks(known / "stacks.jsonl").samples) > 100


def test_a_folder_is_shown_again(known: Path) -> None:
    done = typed(known, "--plain")
    assert (done.returncode, done.stderr) == (0, "")
    assert "GIL wait" in done.stdout
    assert "spinner: other: spin" in done.stdout
    assert done.stdout.isascii()
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_everything_as_json(known: Path) -> None:
    document = json.loads(typed(known, "--json").stdout)
    writer = next(share for share in document["whole"] if share["role"] == "writer")
    assert writer["samples"] == sum(writer["doing"].values())
    assert sum(writer["gil_held_by"].values()) == writer["doing"]["GIL wait"]
    assert document["samples"] == len(read_stacks(known / "stacks.jsonl").samples)
    assert 0 < document["error_ns"]["usual"] <= document["error_ns"]["most"] < 100_000_000


def test_pictures_are_written(known: Path, tmp_path: Path) -> None:
    flame, scope = tmp_path / "flame.svg", tmp_path / "profile.speedscope.json"
    done = typed(known, "--flame", flame, "--speedscope", scope)
    assert done.returncode == 0
    told = [line.partition(" written to ")[2] for line in done.stderr.splitlines()]
    assert told[0].startswith(f"{flame}, ")
    assert told[0].endswith("B; open it with a browser")
    assert told[1].startswith(f"{scope}, ")
    assert told[1].endswith("B; open it at https://www.speedscope.app")
    assert "spin (" in flame.read_text()
    assert json.loads(scope.read_text())["$schema"].startswith("https://www.speedscope.app/")


@pytest.mark.parametrize("option", ["--flame", "--speedscope"])
def test_a_picture_that_is_there_stays_unless_forced(known: Path, tmp_path: Path, option: str) -> None:
    there = tmp_path / "there"
    there.write_text("mine\n")
    done = typed(known, option, there)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{there} is there already; name another file, or add --force" in done.stderr
    assert there.read_text() == "mine\n"
    done = typed(known, option, there, "--force")
    assert done.returncode == 0, done.stderr
    assert there.read_text() != "mine\n"
    assert [each.name for each in tmp_path.iterdir()] == ["there"]


def _small() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))


@pytest.mark.parametrize("option", ["--flame", "--speedscope"])
def test_a_picture_without_room_leaves_the_older_one(known: Path, tmp_path: Path, option: str) -> None:
    there = tmp_path / "there"
    there.write_text("mine\n")
    done = typed(known, option, there, "--force", preexec_fn=_small)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"cannot write {there}: the file may not grow" in done.stderr
    assert there.read_text() == "mine\n"
    assert [each.name for each in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("option", ["--flame", "--speedscope"])
def test_a_picture_that_is_there_is_told_before_anything_is_sampled(run_dir: Path, tmp_path: Path, option: str) -> None:
    (tmp_path / "there").touch()
    done = typed("--run-dir", run_dir, "-o", tmp_path / "out", option, tmp_path / "there")
    assert done.returncode == 2
    assert "is there already" in done.stderr


def test_a_stage_in_which_nothing_was(known: Path, tmp_path: Path) -> None:
    done = typed(known, "--stage", "poll_gap", "--flame", tmp_path / "flame.svg")
    assert done.returncode == 0
    assert "is not written: there is no sample" in done.stderr
    assert not (tmp_path / "flame.svg").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{known}", "-o", "elsewhere"], "holds an earlier one"),
        (["{known}/.."], "holds no stacks.jsonl"),
        *(
            (["--rate", rate], f"argument --rate: '{rate}': choose a whole")
            for rate in ("0", "501", "2.5", "x", "9" * 30)
        ),
        (["--for", "0"], "argument --for: '0' leaves nothing"),
        (["p7"], "no folder is called p7, and no engine records in"),
        (["not/there"], "there is no folder not/there; `kvscope profile -o DIR` makes one"),
        (["{known}", "{known}"], "is a folder: name one that"),
        (["{known}", "p0"], "is a folder: name one that"),
        (["{known}/stacks.jsonl"], "stacks.jsonl is a file; name the folder"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(known: Path, run_dir: Path, words: list[str], said: str) -> None:
    done = typed("--run-dir", run_dir, *(word.format(known=known) for word in words))
    assert done.returncode in (2, 3)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_engine_that_is_not_there(work: Work, run_dir: Path, tmp_path: Path) -> None:
    work("p0")
    done = typed("d9", "--run-dir", run_dir, "-o", tmp_path / "out")
    assert (done.returncode, (tmp_path / "out").exists()) == (2, False)
    assert done.stderr == "kvscope: no engine and no folder is called d9; here record: p0\n"


def test_one_engine_of_two(work: Work, run_dir: Path, tmp_path: Path) -> None:
    work("p0"), work("d0")
    assert typed("d0", "--run-dir", run_dir, "--for", "1s", "-o", tmp_path / "out").returncode == 0
    assert {thread.engine for thread in read_stacks(tmp_path / "out" / "stacks.jsonl").threads} == {"d0"}


def test_an_earlier_profile_is_not_replaced(work: Work, known: Path, run_dir: Path) -> None:
    work("p0")
    before = {path: path.read_bytes() for path in known.iterdir()}
    done = typed("p0", "--run-dir", run_dir, "-o", known)
    assert (done.returncode, "holds an earlier profile" in done.stderr) == (2, True)
    assert {path: path.read_bytes() for path in known.iterdir()} == before


def test_ctrl_c_shows_what_was_sampled(work: Work, run_dir: Path, tmp_path: Path) -> None:
    work("p0")
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    words = command("--run-dir", run_dir, "--for", "1h", "-o", tmp_path / "out")
    running = subprocess.Popen(words, text=True, env=environ, **pipes)  # type: ignore[call-overload]
    assert "sampling 1 process of p0" in running.stderr.readline()
    # What py-spy saw is told when it ends: nobody can wait for the first sample, and it says "sampling" before that.
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(1)
    code, out, err = stop(running)
    assert code == 0
    assert "ALL THE TIME" in out
    assert "samples in" in err
    assert len(read_stacks(tmp_path / "out" / "stacks.jsonl").samples)


def test_a_killed_profile_leaves_what_was_sampled(work: Work, run_dir: Path, tmp_path: Path) -> None:
    """But for the last seconds. The py-spy that it leaves ends by itself within three stretches."""
    work("p0")
    stacks = tmp_path / "out" / "stacks.jsonl"
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = command("--run-dir", run_dir, "--for", "1h", "-o", tmp_path / "out")
    running = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environ)
    until(lambda: stacks.exists() and b'"clock"' in stacks.read_bytes(), "nothing was written")
    left = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    running.kill()
    running.communicate()
    for pid in left:
        assert "--duration" in Path(f"/proc/{pid}/cmdline").read_text()
        os.kill(int(pid), signal.SIGKILL)
    done = typed(tmp_path / "out", "--plain")
    assert done.returncode == 0, done.stderr
    assert "ALL THE TIME" in done.stdout


@pytest.mark.parametrize("at_once", [False, True])
def test_the_last_process_ends(work: Work, run_dir: Path, tmp_path: Path, at_once: bool) -> None:
    worked = work("p0")
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    words = command("--run-dir", run_dir, "--for", "1h", "-o", tmp_path / "out")
    running = subprocess.Popen(words, text=True, env=environ, **pipes)  # type: ignore[call-overload]
    try:
        running.stderr.readline()
        begun = time.monotonic_ns()
        until(lambda: at_once or bool(worked.did(begun + 2 * 10**9)), "the process does nothing")
        worked.process.kill()
        out, err = running.communicate(timeout=60)
    finally:
        running.kill()
        running.communicate()
    assert running.returncode == 0
    assert "Traceback" not in err
    assert at_once or "ALL THE TIME" in out
    assert "ALL THE TIME" in out or "no sample was taken before p0 ended" in err


def test_without_py_spy_the_extra_is_named(work: Work, run_dir: Path, tmp_path: Path) -> None:
    work("p0")
    code = (
        "import sys, shutil\nfrom pathlib import Path\nfrom kvscope.stacks import spy\n"
        "spy.NAME = 'py-spy-that-is-not-there'\nfrom kvscope.cli import main\n"
        f"sys.exit(main(['profile', '--run-dir', {str(run_dir)!r}, '-o', {str(tmp_path / 'out')!r}]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 2
    assert done.stderr == "kvscope: py-spy is not installed here; run: pip install 'kvscope[profile]'\n"
    assert not (tmp_path / "out").exists()


def readable(folder: Path) -> None:
    """Everybody may go through the folders to it, and write in it."""
    for path in folder.parents:
        path.chmod(path.stat().st_mode | 0o755)
    folder.chmod(0o777)


# Imports first: another user may not be able to read this Python.
AS_NOBODY = """
import os, sys
from kvscope.cli import main, profile
from kvscope.stacks import session, document, reading, profile, spy
import kvscope.sources.opening, kvscope.core.critical_path, kvscope.analysis.render.profile, encodings.ascii
tool = spy.found()
spy.found = lambda: tool
os.setgroups([]); os.setgid({user}); os.setuid({user})
sys.exit(main({words!r}))
"""


def as_nobody(*words: str | Path) -> subprocess.CompletedProcess[str]:
    code = AS_NOBODY.format(user=NOBODY, words=["profile", *map(str, words)])
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environ)


@needs_root
def test_another_users_process_may_not_be_sampled_and_it_says_what_to_grant(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = tmp_path / "rings"
    monkeypatch.setenv("KVSCOPE_RUN_DIR", str(run_dir))
    monkeypatch.setenv("KVSCOPE_GROUP", str(NOBODY))
    worked = work("p0")
    readable(tmp_path)
    done = as_nobody("--run-dir", run_dir, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert f"p0, pid {worked.pid}, cannot be sampled: it is run by user 0 and kvscope by user {NOBODY}" in done.stderr
    assert "CAP_SYS_PTRACE (a container: --cap-add SYS_PTRACE; Kubernetes: securityContext" in done.stderr


@needs_root
def test_rings_of_another_user_are_said_to_be_closed_and_what_to_grant(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = tmp_path / "rings"
    monkeypatch.setenv("KVSCOPE_RUN_DIR", str(run_dir))
    run_dir.mkdir(mode=0o755)
    work("p0")
    readable(tmp_path)
    done = as_nobody("--run-dir", run_dir, "-o", tmp_path / "out")
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert f"1 ring file in {run_dir} may not be read by user {NOBODY}: run kvscope as user 0 or as root" in done.stderr
    assert "KVSCOPE_GROUP" in done.stderr


UNDUMPABLE = """
import ctypes, os, sys
os.setgroups([]); os.setgid({user}); os.setuid({user})
os.environ["KVSCOPE_RUN_DIR"] = {run_dir!r}
from kvscope.probe import recorder
recorder.describe({{"engine": "p0"}})
recorder.record(1, 1, "request")
ctypes.CDLL(None).prctl(4, 0)
print("ready", flush=True)
sys.stdin.readline()
"""


@needs_root
def test_a_process_that_made_itself_unreadable_may_not_be_sampled(tmp_path: Path) -> None:
    run_dir = tmp_path / "rings"
    readable(tmp_path)
    code = "import encodings.ascii, kvscope.probe.recorder, json, ctypes\n" + UNDUMPABLE.format(
        user=NOBODY, run_dir=str(run_dir)
    )
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    held = subprocess.Popen([sys.executable, "-c", code], text=True, env=environ, **pipes)  # type: ignore[call-overload]
    try:
        assert held.stdout.readline().strip() == "ready"
        done = as_nobody("--run-dir", run_dir, "-o", tmp_path / "out")
    finally:
        held.kill()
        held.communicate()
    assert done.returncode == 2, done.stderr
    assert "made itself unreadable (not dumpable): run kvscope as root" in done.stderr


@needs_root
@pytest.mark.parametrize(("size", "samples"), [("4k", False), ("8k", True)])
def test_a_disk_that_becomes_full_is_told_with_what_is_left(
    work: Work, run_dir: Path, tmp_path: Path, size: str, samples: bool
) -> None:
    work("p0")
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    kvscope = " ".join(command("--run-dir", run_dir, "--rate", "500", "--for", "4s", "-o", disk / "out"))
    script = f"mount -t tmpfs -o size={size} none {disk} && {kvscope}; code=$?; cp -r {disk}/out {kept}; exit $code"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    said = done.stderr.splitlines()[-1]
    found = re.search(r"(no|[\d,]+) samples? in \S+/out/stacks.jsonl can be read", said)
    assert found, said
    assert (found[1] != "no") is samples
    assert "recording.kvs is left, " in said
    if samples:
        assert len(read_stacks(kept / "stacks.jsonl").samples) == int(found[1].replace(",", ""))
        shown = typed(kept, "--plain")
        assert shown.returncode == 0, shown.stderr


@needs_root
def test_a_folder_that_may_not_be_written(work: Work, run_dir: Path, tmp_path: Path) -> None:
    work("p0")
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    script = (
        f"mount -t tmpfs -o ro none {mounted} && exec {' '.join(command('--run-dir', run_dir, '-o', mounted / 'out'))}"
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "read-only file system; name another folder" in done.stderr
