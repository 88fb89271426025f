"""At import, in fresh, forked and spawned processes; and what happens when it cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvscope.vllm import disk, installation

from .conftest import QUEUE, Child

START = """
import json, sys, inspect, traceback
import vllm
from kvscope.vllm import plugin, status
"""
SEEN = """
import kvscope.vllm.tracepoints as tracepoints
seen = []
for name in ("released", "ready", "preempted", "step_begun"):
    setattr(tracepoints, name, lambda *args, name=name: seen.append(name))
import vllm.v1.queue, vllm.v1.core
def exercise():
    queue = vllm.v1.queue.Queue()
    assert queue.put("r") == 1 and queue.wrapped("r") == "r" and vllm.v1.core.Core().step == 0
    try: queue.fail("r")
    except RuntimeError: pass
    return seen
"""
ALL = ["released", "preempted", "step_begun", "ready"]


def test_a_module_imported_later_is_patched(child: Child) -> None:
    ended = child(
        START + "plugin.load(); plugin.load()\n" + SEEN + "print(json.dumps([exercise(), status.how, status.release]))"
    )
    assert ended.stderr == ""
    assert json.loads(ended.stdout) == [ALL, "import", "1.0.0"]


def test_a_module_imported_before_gets_new_code_and_stays_the_same_objects(child: Child) -> None:
    ended = child(
        START
        + "import vllm.v1.queue, vllm.v1.core\nQueue = vllm.v1.queue.Queue\nbound = Queue().put\nplugin.load()\n"
        + SEEN
        + "assert Queue is vllm.v1.queue.Queue\nbound('r')\nprint(json.dumps([exercise(), status.how]))"
    )
    assert ended.stderr == ""
    assert json.loads(ended.stdout) == [["released", *ALL], "import"]


@pytest.mark.parametrize("early", ["", "import vllm.v1.queue\n"])
def test_tracebacks_and_source_are_those_of_the_stock_file(child: Child, early: str) -> None:
    program = """plugin.load()
import vllm.v1.queue as q
try: q.Queue.fail("r")
except RuntimeError as error: frame = traceback.extract_tb(error.__traceback__)[-1]
print(json.dumps([frame.lineno, frame.line, inspect.getsource(q.Queue.fail), inspect.getsource(q.Queue.untouched),
  q.Queue.put.__doc__, inspect.getsource(q)]))
"""
    line, text, fail, untouched, doc, source = json.loads(child(START + early + program).stdout)
    assert (QUEUE.split("\n")[line - 1].strip(), text) == ("raise RuntimeError(request)",) * 2
    assert fail in QUEUE
    assert fail.endswith("raise RuntimeError(request)\n")
    assert untouched == "    def untouched(self):\n        return 0\n"
    assert (doc, source) == ("Take one.", QUEUE)


PROCESSES = """
import multiprocessing
def work(conn, before):
    import vllm
    if before:
        import vllm.v1.core
    from kvscope.vllm import plugin, status
    plugin.load()
    exec(SEEN, globals())
    conn.send([exercise(), status.how])
SEEN = {seen!r}
if __name__ == "__main__":
    import json, vllm
    from kvscope.vllm import plugin
    plugin.load()
    answers = []
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        mine, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, True))
        process.start()
        answers.append(mine.recv())
        process.join()
    print(json.dumps(answers))
"""


def test_forked_and_spawned_children_are_patched(child: Child) -> None:
    ended = child(PROCESSES.format(seen=SEEN))
    assert ended.stderr == ""
    assert json.loads(ended.stdout) == [[ALL, "import"]] * 2


REPORT = "print(json.dumps([exercise(), status.how, status.reason]))"


def refused(child: Child, **extra: str) -> tuple[str, str]:
    """(the reason, standard error) of an engine that must run uninstrumented."""
    ended = child(START + "plugin.load(); plugin.load()\n" + SEEN + REPORT, **extra)
    seen, how, reason = json.loads(ended.stdout)
    assert (seen, how) == ([], "failed")
    return reason, ended.stderr


def test_one_unknown_file_and_nothing_is_applied(base: Path, child: Child) -> None:
    with (base / "vllm/v1/queue.py").open("a") as file:
        file.write("# another release\n")
    reason, said = refused(child)
    assert "vLLM 1.0.0 is not as released" in reason
    assert str(base / "vllm/v1/queue.py") in reason
    assert said == f"kvscope: vLLM runs uninstrumented: {reason}\n"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("+        _kvs.released(self, request)", "+        _kvs.released(self.x, request)", "passes 'self.x'"),
        ("+        _kvs.released(self, request)", "+        _kvs.released(self, nothing)", "not bound on every path"),
        ("+        _kvs.released(self, request)", "+        _kvs.no_such(self, request)", "does not exist"),
        ("+        _kvs.released(self, request)", "+      _kvs.released(self, request)", "does not parse"),
        ("+        _kvs.released(self, request)", "-        size = 1", "promises"),
        ("# releases", "# release", "headers"),
    ],
)
def test_one_broken_patch_and_nothing_is_applied(base: Path, child: Child, old: str, new: str, why: str) -> None:
    (file,) = (base.parent / "patches/v1/queue").glob("*.patch")
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    reason, said = refused(child)
    assert why in reason
    assert said == f"kvscope: vLLM runs uninstrumented: {reason}\n"


def test_a_function_that_something_else_replaced_refuses_the_whole_set(child: Child) -> None:
    other = "import vllm.v1.core\nvllm.v1.core.Core.__init__ = lambda self: setattr(self, 'step', 0)\n"
    ended = child(START + other + "plugin.load()\n" + SEEN + REPORT)
    seen, how, reason = json.loads(ended.stdout)
    assert (seen, how) == ([], "failed")
    assert "Core.__init__ was replaced" in reason


def test_no_patches_at_all_is_a_reason_too(child: Child, tmp_path: Path) -> None:
    reason, _ = refused(child, KVSCOPE_PATCHES=str(tmp_path / "nowhere"))
    assert "nowhere" in reason


def test_off_does_nothing_and_says_nothing(child: Child) -> None:
    ended = child(START + "plugin.load()\n" + SEEN + REPORT, KVSCOPE="off")
    assert json.loads(ended.stdout) == [[], "off", None]
    assert ended.stderr == ""


def test_the_reason_is_told_once_for_an_engines_processes(base: Path, child: Child) -> None:
    (base / "vllm/v1/queue.py").write_text("class Queue: pass\n")
    program = START + "plugin.load()\nimport subprocess\nsubprocess.run([sys.executable, '-c', 'import vllm; "
    ended = child(program + "from kvscope.vllm.plugin import load; load()'], check=True)\n")
    assert ended.stderr.count("\n") == 1


def test_an_installation_patched_on_disk_is_left_alone(base: Path, child: Child) -> None:
    disk.apply(base.parent / "patches", base)
    ended = child(START + "plugin.load()\n" + SEEN + REPORT)
    assert ended.stderr == ""
    assert json.loads(ended.stdout) == [ALL, "disk", None]


def test_an_installation_patched_in_part_is_completed_in_memory(base: Path, child: Child) -> None:
    disk.apply(base.parent / "patches", base)
    (base / "vllm/v1/core.py").write_bytes(disk_stock(base))
    ended = child(START + "plugin.load()\n" + SEEN + REPORT)
    assert json.loads(ended.stdout) == [ALL, "import and disk", None]


def disk_stock(base: Path) -> bytes:
    found = installation.survey(base.parent / "patches", base)
    return next(file.stock() for file in found.files if file.patch.path == "vllm/v1/core.py")


def test_on_disk_without_kvscope_the_lines_do_nothing(base: Path, child: Child) -> None:
    disk.apply(base.parent / "patches", base)
    ended = child(
        "import sys; sys.modules['kvscope'] = None\n"
        "import vllm.v1.queue as q; print(q.Queue().put('r'), q.Queue().wrapped('r'), type(q._kvs).__name__)"
    )
    assert (ended.stdout, ended.stderr) == ("1 r _kvs\n", "")


def test_by_function_a_changed_function_loses_its_moments_by_name(base: Path, child: Child) -> None:
    file = base / "vllm/v1/queue.py"
    file.write_text("# moved down\n\n" + QUEUE.replace("size = 1", "size = 2 - 1"))
    ended = child(
        START + "plugin.load()\n" + SEEN + "print(json.dumps([exercise(), status.how, status.missing]))",
        KVSCOPE_BY_FUNCTION="1",
    )
    lost = "vllm/v1/queue.py:Queue.put"
    assert json.loads(ended.stdout) == [ALL[1:], "by function", [lost]]
    assert ended.stderr == f"kvscope: no moments from {lost}\n"
