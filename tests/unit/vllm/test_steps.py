"""Steps without a forward: one record for many, and none that stays unwritten."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kvscope.probe.reader import list_rings
from kvscope.vllm.steps import FOLD_NS, StepFold

from .conftest import Trace, moments

LEFT = """
import multiprocessing, sys
from kvscope.vllm.steps import StepFold

def work():
    fold = StepFold()
    for number in range(5):
        fold.add(number, number, number + 1, 0, 0)
    raise SystemExit

if __name__ == "__main__":
    how = sys.argv[1]
    if how == "itself":
        work()
    process = multiprocessing.get_context(how).Process(target=work)
    process.start()
    process.join()
"""


def test_a_step_with_a_forward_is_written_by_itself_after_those_before_it(trace: Trace) -> None:
    fold = StepFold()
    fold.add(1, 10, 11, 0, 0, 3)
    fold.add(2, 11, 12, 0, 0, 4)
    fold.add(3, 12, 20, 2, 9, 5)
    written = [(moment.t, moment.step, moment.values) for moment in trace.moments("step")]
    assert written == [(12, 2, (10, 0, 0, 7, 2)), (20, 3, (12, 2, 9, 5, 0))]


def test_a_fold_is_written_after_a_while(trace: Trace) -> None:
    fold = StepFold()
    for number in range(10):
        fold.add(number, number * FOLD_NS // 4, (number + 1) * FOLD_NS // 4, 0, 0)
    assert [moment.values[-1] for moment in trace.moments("step")] == [5, 5]


@pytest.mark.parametrize("how", ["itself", "fork", "spawn"])
def test_a_fold_is_written_when_its_process_ends(how: str, tmp_path: Path) -> None:
    script = tmp_path / "work.py"
    script.write_text(LEFT)
    env = {"KVSCOPE_RUN_DIR": str(tmp_path / "run"), "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, script, how], env=env, check=True, timeout=60)
    (ring,) = list_rings(tmp_path / "run")
    assert [(moment.name, moment.values) for moment in moments(ring)] == [("step", (0, 0, 0, 5))]
