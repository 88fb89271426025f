"""Why this process may not read another one's memory, and what to grant it."""

from __future__ import annotations

from pathlib import Path

from kvscope.sources.proc import PROC

CAP_SYS_PTRACE = 19
YAMA = Path("sys/kernel/yama/ptrace_scope")
GRANT = (
    "run kvscope as root, or with CAP_SYS_PTRACE (a container: --cap-add SYS_PTRACE; Kubernetes: securityContext:"
    " {capabilities: {add: [SYS_PTRACE]}}, and shareProcessNamespace: true for a sidecar)"
)


def why_denied(pid: int, root: Path = PROC) -> str:
    """The reason, as far as the kernel tells it."""
    theirs, ours = _status(root, str(pid)), _status(root, "self")
    if not theirs:
        return "it has ended"
    if has_ptrace(ours):
        return "something forbids it to root, too: a security module, or a user namespace that is not this one's"
    uid, own = theirs.get("Uid", "").split(), ours.get("Uid", "").split()
    if uid != own:
        return f"it is run by user {' '.join(uid[:1])} and kvscope by user {' '.join(own[:1])}: {GRANT}"
    scope = _yama(root)
    if scope >= 1:
        allow = ", or set kernel.yama.ptrace_scope to 0" if scope < 3 else ", once kernel.yama.ptrace_scope is below 3"
        return f"kernel.yama.ptrace_scope is {scope}: {GRANT}{allow}"
    return f"it was started with more rights than kvscope has, or made itself unreadable (not dumpable): {GRANT}"


def has_ptrace(status: dict[str, str]) -> bool:
    """Whether a process may read the memory of others, by its /proc/PID/status."""
    return bool(int(status.get("CapEff", "0").strip() or "0", 16) >> CAP_SYS_PTRACE & 1)


def _status(root: Path, pid: str) -> dict[str, str]:
    try:
        lines = (root / pid / "status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _yama(root: Path) -> int:
    try:
        return int((root / YAMA).read_text())
    except (OSError, ValueError):
        return 0
