"""On disk: whole or not at all, byte for byte reversible, and repairable when killed half way."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from kvscope.model.errors import InputError
from kvscope.vllm import disk, installation

from .conftest import FILES, ROOT

Snapshot = dict[str, tuple[bytes, int, int]]


def look(base: Path) -> installation.Survey:
    return installation.survey(base.parent / "patches", base)


def snapshot(base: Path) -> Snapshot:
    """Contents, mode and modification time of everything but byte code."""
    files = [f for f in base.rglob("*") if f.is_file() and "__pycache__" not in f.parts]
    return {str(f): (f.read_bytes(), f.stat().st_mode, f.stat().st_mtime_ns) for f in files}


def test_apply_then_revert_leaves_no_trace(base: Path) -> None:
    os.chmod(base / "vllm/v1/queue.py", 0o640)
    os.utime(base / "vllm/v1/core.py", ns=(1_000_000_001, 2_000_000_003))
    before = snapshot(base)
    assert disk.apply(look(base)) == ["vllm/v1/core.py", "vllm/v1/queue.py"]
    assert disk.describe(look(base)) == "patched"
    assert "_kvs.released(self, request)" in (base / "vllm/v1/queue.py").read_text()
    assert (base / "vllm/v1/queue.py").stat().st_mode & 0o777 == 0o640
    assert disk.apply(look(base)) == []
    assert len(disk.revert(look(base))) == 2
    assert snapshot(base) == before


def test_a_changed_file_is_refused_by_name_and_nothing_is_touched(base: Path) -> None:
    with (base / "vllm/v1/queue.py").open("a") as file:
        file.write("# mine\n")
    before = snapshot(base)
    with pytest.raises(InputError, match=r"vllm/v1/queue\.py has SHA-256 [0-9a-f]{64}, expected [0-9a-f]{64}"):
        disk.apply(look(base))
    assert snapshot(base) == before


def test_a_file_changed_after_apply_is_not_reverted_over(base: Path) -> None:
    disk.apply(look(base))
    with (base / "vllm/v1/queue.py").open("a") as file:
        file.write("# mine\n")
    before = snapshot(base)
    with pytest.raises(InputError, match=r"cannot revert: .*vllm/v1/queue\.py"):
        disk.revert(look(base))
    assert snapshot(base) == before


KILLED = """
import os, sys
from pathlib import Path
from kvscope.vllm import disk, installation
whole, done = disk._replace, []
def replace(path, data, times):
    if path.suffix == ".py" and done:
        os._exit(9)
    whole(path, data, times)
    if path.suffix == ".py":
        done.append(path)
disk._replace = replace
getattr(disk, sys.argv[2])(installation.survey(Path(sys.argv[1]).parent / "patches", Path(sys.argv[1])))
"""


def kill_during(base: Path, verb: str) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(base), verb], env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert ended.returncode == 9
    assert "in part (1 of 2 files)" in disk.describe(look(base))


@pytest.mark.parametrize("verb", ["apply", "revert"])
@pytest.mark.parametrize("repair", ["apply", "revert"])
def test_killed_between_two_files_it_can_go_on_or_back(base: Path, verb: str, repair: str) -> None:
    before = snapshot(base)
    if verb == "revert":
        disk.apply(look(base))
    kill_during(base, verb)
    if repair == "apply":
        assert len(disk.apply(look(base))) == 1
        assert disk.describe(look(base)) == "patched"
    disk.revert(look(base))
    assert snapshot(base) == before


def test_an_installers_hard_link_keeps_its_contents(base: Path) -> None:
    cached = base.parent / "cached.py"
    os.link(base / "vllm/v1/queue.py", cached)
    disk.apply(look(base))
    assert cached.read_text() == FILES["v1/queue.py"]


def test_a_symbolic_link_is_refused(base: Path) -> None:
    real = base.parent / "real.py"
    (base / "vllm/v1/queue.py").rename(real)
    (base / "vllm/v1/queue.py").symlink_to(real)
    with pytest.raises(InputError, match="symbolic link"):
        disk.apply(look(base))
    assert real.read_text() == FILES["v1/queue.py"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_installation_is_refused_in_one_sentence(base: Path) -> None:
    os.chmod(base / "vllm/v1", 0o555)
    try:
        with pytest.raises(InputError, match="read-only"):
            disk.apply(look(base))
    finally:
        os.chmod(base / "vllm/v1", 0o755)


def names_of_put(base: Path) -> str:
    program = "import vllm.v1.queue as q; print(q.Queue.put.__code__.co_names)"
    environment = {**os.environ, "PYTHONPATH": f"{base}{os.pathsep}{ROOT}"}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True).stdout


@pytest.mark.parametrize("mode", list(py_compile.PycInvalidationMode))
def test_byte_code_never_hides_what_was_done(base: Path, mode: py_compile.PycInvalidationMode) -> None:
    py_compile.compile(str(base / "vllm/v1/queue.py"), invalidation_mode=mode)
    disk.apply(look(base))
    assert "_kvs" in names_of_put(base)
    disk.revert(look(base))
    assert names_of_put(base) == "()\n"


def test_the_command_line_says_where_it_stands(base: Path) -> None:
    def kvscope(verb: str) -> subprocess.CompletedProcess[str]:
        words = ["patch", verb, "--vllm", str(base / "vllm"), "--patches", str(base.parent / "patches")]
        return subprocess.run([sys.executable, "-m", "kvscope", *words], cwd=ROOT, capture_output=True, text=True)

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
