"""Memory that is freed is used again without asking the kernel for it."""

from __future__ import annotations

import subprocess
import sys

FAULTS = """
import resource, sys, threading
import numpy as np
from kvscope.live.memory import keep_freed

if sys.argv[1] == "keep" and not keep_freed():
    raise SystemExit("no mallopt here")

def pictures():
    for _ in range(40):
        several = [np.ones(40_000) for _ in range(12)]
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(40):
        several = [np.ones(40_000) for _ in range(12)]
    print(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)

thread = threading.Thread(target=pictures)
thread.start()
thread.join()
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_a_thread_that_lays_out_the_same_again_and_again_faults_no_more() -> None:
    assert faults("keep") < faults("leave") / 20
