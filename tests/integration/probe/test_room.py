"""Too little shared memory, none, or none that may be written: the process goes on, one line says why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvscope.probe.reader import list_rings

from .conftest import needs_root

# Records from four threads, many times over the size of the memory; says at the end that it got there.
SERVING = """
import sys, threading
from kvscope.probe.recorder import record
together = threading.Barrier(4)
def work(side):
    for number in range(30000): record(1, 1, f"{side}-{number}", 1, number)
    together.wait()
threads = [threading.Thread(target=work, args=(side,)) for side in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("served")
"""


def private_mount(setup: str, run_dir: Path, after: str = "true", **env: str) -> subprocess.CompletedProcess[str]:
    """Run SERVING with a mount namespace of its own, `setup` before and `after` after it, both in a shell."""
    script = f'set -e; {setup}; "$PYTHON" -c "$SERVING" || echo "ended with $?"; {after}'
    known = {"PYTHON": sys.executable, "SERVING": SERVING, "RUN": str(run_dir), "KVSCOPE_RUN_DIR": str(run_dir)}
    command = ["unshare", "-m", "sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env={**os.environ, **known, **env})


@pytest.fixture
def mount_point(tmp_path: Path) -> Path:
    """Where a test may mount a small tmpfs."""
    if not shutil.which("unshare"):
        pytest.skip("no unshare here")
    made = tmp_path / "shm"
    made.mkdir()
    probe = private_mount(f"mount -t tmpfs -o size=4m none {made}", made, "exit 0")
    if "served" not in probe.stdout:
        pytest.skip(f"may not mount here: {probe.stderr.strip()}")
    return made


def small(mount_point: Path, megabytes: int) -> str:
    return f"mount -t tmpfs -o size={megabytes}m none {mount_point}"


@needs_root
def test_a_small_one_is_shared_and_a_quarter_stays_free(mount_point: Path, tmp_path: Path) -> None:
    run = mount_point / "run"
    copied = f"cp -r $RUN {tmp_path}/copy; stat -f -c '%f %b' {mount_point}"
    done = private_mount(small(mount_point, 4), run, copied)
    assert (done.returncode, done.stderr, done.stdout.split()[0]) == (0, "", "served")
    free, blocks = map(int, done.stdout.split()[1:])
    (ring,) = list_rings(tmp_path / "copy")
    assert (free >= blocks // 4, ring.header.refused, len(ring.segments())) == (True, 0, 4)


@needs_root
def test_a_containers_usual_64_megabytes_are_plenty(mount_point: Path, tmp_path: Path) -> None:
    run = mount_point / "run"
    copied = f"cp -r $RUN {tmp_path}/copy; stat -f -c '%f %b' {mount_point}"
    done = private_mount(small(mount_point, 64), run, copied)
    free, blocks = map(int, done.stdout.split()[1:])
    (ring,) = list_rings(tmp_path / "copy")
    sizes = [segment.events.capacity for segment in ring.segments()]
    assert (sizes, ring.header.file_bytes < 5 << 20, free > blocks * 0.9) == ([8192] * 4, True, True)


@needs_root
def test_a_nearly_full_one_counts_what_it_cannot_keep(mount_point: Path, tmp_path: Path) -> None:
    run = mount_point / "run"
    fill = f"{small(mount_point, 4)}; head -c 3100000 /dev/zero > {mount_point}/other"
    done = private_mount(fill, run, f"cp -r $RUN {tmp_path}/copy")
    assert done.stdout == "served\n"
    assert done.stderr.startswith("kvscope: no room for the events of thread ")
    assert done.stderr.count("\n") == 1
    (ring,) = list_rings(tmp_path / "copy")
    assert ring.header.note.startswith("no room for the events of thread ")
    assert ring.header.refused + sum(segment.events.head() for segment in ring.segments()) == 4 * 30000


@needs_root
def test_a_full_one_is_told_once(mount_point: Path) -> None:
    fill = f"{small(mount_point, 4)}; head -c 5m /dev/zero > {mount_point}/other 2> /dev/null || true"
    done = private_mount(fill, mount_point / "run")
    assert done.stdout == "served\n"
    assert done.stderr.startswith(f"kvscope: cannot record in {mount_point / 'run'}: ")
    assert done.stderr.count("\n") == 1


@needs_root
def test_a_read_only_one_is_told_once(mount_point: Path) -> None:
    done = private_mount(f"mount -t tmpfs -o ro none {mount_point}", mount_point / "run")
    assert done.stdout == "served\n"
    assert "Read-only file system" in done.stderr
    assert done.stderr.count("\n") == 1
