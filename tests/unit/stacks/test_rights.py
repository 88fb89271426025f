"""Why a process may not be sampled, by what /proc says of both: trees made up for the kernels that are not here."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.stacks.rights import YAMA, why_denied

NO_CAPS, PTRACE = "0000000000000000", "0000000000080000"


def tree(root: Path, ours: str, theirs: str, caps: str = NO_CAPS, yama: str | None = None) -> Path:
    for pid, uid in (("self", ours), ("77", theirs)):
        (root / pid).mkdir()
        held = caps if pid == "self" else NO_CAPS
        (root / pid / "status").write_text(f"Name:\tpython\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nCapEff:\t{held}\n")
    if yama is not None:
        (root / YAMA).parent.mkdir(parents=True)
        (root / YAMA).write_text(yama)
    return root


def test_another_user(tmp_path: Path) -> None:
    why = why_denied(77, tree(tmp_path, "1000", "0"))
    assert why.startswith("it is run by user 0 and kvscope by user 1000: run kvscope as root, or with CAP_SYS_PTRACE")
    for grant in ("--cap-add SYS_PTRACE", "capabilities: {add: [SYS_PTRACE]}", "shareProcessNamespace: true"):
        assert grant in why


@pytest.mark.parametrize(
    ("scope", "grant"), [("1\n", "ptrace_scope to 0"), ("2\n", "ptrace_scope to 0"), ("3\n", "below 3")]
)
def test_yama(tmp_path: Path, scope: str, grant: str) -> None:
    why = why_denied(77, tree(tmp_path, "1000", "1000", yama=scope))
    assert why.startswith(f"kernel.yama.ptrace_scope is {scope.strip()}: ")
    assert grant in why


@pytest.mark.parametrize("yama", [None, "0\n"])
def test_a_process_that_made_itself_unreadable(tmp_path: Path, yama: str | None) -> None:
    assert "not dumpable" in why_denied(77, tree(tmp_path, "1000", "1000", yama=yama))


def test_the_capability_is_there_and_does_not_help(tmp_path: Path) -> None:
    assert "security module" in why_denied(77, tree(tmp_path, "0", "1000", PTRACE))


def test_it_has_ended(tmp_path: Path) -> None:
    assert why_denied(78, tree(tmp_path, "0", "0")) == "it has ended"
