"""Whose CPU time is whose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.bystanders import TICKS_PER_S, Bystanders, watching

WORK = "import time\nwhile time.process_time() < 0.5: pass"


def test_what_a_child_did_is_our_own_though_it_has_ended() -> None:
    with watching() as watch:
        subprocess.run([sys.executable, "-c", WORK], check=True)
    assert watch.bystanders.own_s > 0.4


def test_what_nobody_of_ours_did_is_others() -> None:
    with watching() as watch:
        orphaned = "import os, sys\nif os.fork(): os._exit(0)\nexec(sys.argv[1])"
        # It ends when the orphan has closed the pipe too.
        subprocess.run([sys.executable, "-c", orphaned, WORK], check=True, capture_output=True)
    seen = watch.bystanders
    assert seen.own_s < 0.4
    assert seen.all_s - seen.own_s > 0.4


def machine(root: Path, busy: int, stolen: int, ours: int, child: int) -> None:
    """A /proc of four cores with process 7, its child 9 and a stranger, after so many ticks."""
    idle = 5000
    cores = "".join(f"cpu{core} 0 0 0 0 0 0 0 0 0 0\n" for core in range(4))
    (root / "stat").write_text(f"cpu  {busy} 1 2 {idle} 300 3 4 {stolen} 70 0\n{cores}intr 9\n")
    for pid, parent, ticks in ((7, 1, ours), (9, 7, child), (11, 1, 40)):
        (root / str(pid)).mkdir(exist_ok=True)
        (root / str(pid) / "stat").write_text(f"{pid} (a (b) c) S {parent} {'0 ' * 9}{ticks} 1 0 0 20 0\n")


def test_stolen_time_is_others_and_idle_time_nobody_s(tmp_path: Path) -> None:
    machine(tmp_path, busy=100, stolen=10, ours=20, child=30)
    with watching(7, tmp_path) as watch:
        machine(tmp_path, busy=600, stolen=60, ours=120, child=330)
    seen = watch.bystanders
    assert seen.cores == 4
    assert (seen.all_s, seen.own_s) == (550 / TICKS_PER_S, 400 / TICKS_PER_S)


@pytest.mark.parametrize(
    ("others", "quiet", "figure"), [(0, True, 15), (7.9, True, 15), (8.1, False, 150), (70, False, 150)]
)
def test_a_machine_is_quiet_as_long_as_others_have_little_of_it(others: float, quiet: bool, figure: int) -> None:
    seen = Bystanders(seconds=20, cores=4, all_s=10 + others, own_s=10)
    assert seen.quiet is quiet
    assert seen.choose(quiet=15, busy=150) == figure
    assert ("tight" in str(seen)) is quiet


def test_ticks_that_were_counted_late_do_not_make_others_negative() -> None:
    assert Bystanders(seconds=20, cores=2, all_s=9.98, own_s=10).share == 0
