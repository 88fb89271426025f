"""The vLLM processes of this host, as /proc shows them: who they are, and what may be read of them.

Standard library only, since it has to work inside a vLLM image. The root is an argument, so that a recorded
tree can be read as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kvscope.probe import regular

PROC = Path("/proc")

_TITLE = re.compile(r"^(?P<prefix>\S+)::(?P<name>EngineCore|Worker|APIServer|DPCoordinator)(?P<rest>\S*)")
_SERVER = re.compile(r"\0-m\0vllm\.entrypoints|^([^\0]*\0)?([^\0]*/)?vllm\0serve\0")
_ROLES = {"EngineCore": "core", "Worker": "worker", "APIServer": "api", "DPCoordinator": "coordinator"}
_LISTENING = "0A"
_SITE = re.compile(r"\s(/\S*?/(?:site|dist)-packages)/")


@dataclass(frozen=True)
class HostProcess:
    """One vLLM process. What may not be read is None, and `denied` names it."""

    pid: int
    """As this host numbers it."""
    role: str
    """api, core, worker or coordinator"""
    command: str
    uid: int
    parent: int
    own_pid: int
    """As the process sees itself, in the innermost pid namespace."""
    start_ticks: int
    environ: Mapping[str, str] | None
    """As it was started; a child that renamed itself shows its parent's."""
    site: Path | None
    """The site-packages that it runs from, in its own file system."""
    time_namespace: str | None
    denied: tuple[str, ...] = ()
    age_s: float | None = None
    """How long ago it was started; None where it cannot be told."""


def vllm_processes(root: Path = PROC) -> list[HostProcess]:
    """Every vLLM process under `root`, by pid. Processes that end meanwhile are left out."""
    found: dict[int, HostProcess] = {}
    for pid in _pids(root):
        command = _text(root / str(pid) / "cmdline")
        role = role_of(command or "")
        if role and (process := _read(root, pid, role, command or "")):
            found[pid] = process
    return [_with_inherited_environ(process, found) for _, process in sorted(found.items())]


def role_of(command: str) -> str | None:
    """What a command line (NUL separated, or a title set by the process) makes of the process, if it is vLLM's.
    A shell that was told to start one has it in one word, and does not count."""
    if title := _TITLE.match(command):
        return _ROLES[title["name"]]
    if _SERVER.search(command):
        return "api"
    return None


def time_namespace(root: Path, pid: int | str) -> str | None:
    """The identity of a process's time namespace; None where it may not be read or the kernel has none."""
    try:
        return os.readlink(root / str(pid) / "ns" / "time")
    except OSError:
        return None


def inside(root: Path, pid: int, path: Path) -> Path:
    """`path` of the process's own file system, as it can be reached from here."""
    return root / str(pid) / "root" / path.relative_to("/")


def clock_source(system: Path = Path("/sys")) -> str | None:
    """The kernel's clock source, e.g. `tsc`."""
    return (_text(system / "devices/system/clocksource/clocksource0/current_clocksource") or "").strip() or None


def _pids(root: Path) -> Iterator[int]:
    try:
        names = os.listdir(root)
    except OSError:
        return
    yield from sorted(int(name) for name in names if name.isdigit())


def _read(root: Path, pid: int, role: str, command: str) -> HostProcess | None:
    folder = root / str(pid)
    status, stat = _text(folder / "status"), _text(folder / "stat")
    if not status or not stat or stat.rpartition(")")[2].split()[0] == "Z":
        return None
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    environ, maps = _text(folder / "environ"), _text(folder / "maps")
    return HostProcess(
        pid=pid,
        role=role,
        command=command.replace("\0", " ").strip(),
        uid=int(fields["Uid"].split()[0]),
        parent=int(fields["PPid"]),
        own_pid=int(fields.get("NSpid", str(pid)).split()[-1]),
        start_ticks=int(stat.rpartition(")")[2].split()[19]),
        environ=None if environ is None else parse_environ(environ),
        site=_site(maps or ""),
        time_namespace=time_namespace(root, pid),
        denied=tuple(name for name, read in (("environ", environ), ("maps", maps)) if read is None),
        age_s=_age(root, int(stat.rpartition(")")[2].split()[19])),
    )


def listens(root: Path, pid: int) -> bool | None:
    """Whether the process holds a TCP socket that connections are taken from. None: its sockets may not be seen."""
    folder = root / str(pid)
    tables = [table for name in ("tcp", "tcp6") if (table := _text(folder / "net" / name)) is not None]
    try:
        held = {os.readlink(folder / "fd" / name) for name in os.listdir(folder / "fd")}
    except OSError:
        return None
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    return any(row[3] == _LISTENING and f"socket:[{row[9]}]" in held for row in rows) if tables else None


def _age(root: Path, start_ticks: int) -> float | None:
    uptime = _text(root / "uptime")
    return float(uptime.split()[0]) - start_ticks / os.sysconf("SC_CLK_TCK") if uptime else None


def parse_environ(text: str) -> dict[str, str]:
    """NUL-separated NAME=VALUE; what a process that renamed itself has overwritten is left out."""
    pairs = (entry.partition("=") for entry in text.split("\0"))
    return {name: value for name, equals, value in pairs if equals and name.isidentifier()}


def _with_inherited_environ(process: HostProcess, found: Mapping[int, HostProcess]) -> HostProcess:
    """A new title is written over the old command line and the environment behind it, all or in part: take the
    rest from the vLLM processes above, as far up as there are any."""
    environ, below = dict(process.environ or {}), process
    while _TITLE.match(below.command) and (above := found.get(below.parent)):
        environ = {**(above.environ or {}), **environ}
        below = above
    return replace(process, environ=environ if environ or process.environ is not None else None)


def _site(maps: str) -> Path | None:
    """The site-packages most mapped files come from: with several, the one that holds the big libraries."""
    counts: dict[str, int] = {}
    for found in _SITE.finditer(maps):
        counts[found[1]] = counts.get(found[1], 0) + 1
    return Path(max(counts, key=lambda path: counts[path])) if counts else None


def _text(path: Path) -> str | None:
    try:
        return regular.read(path).decode("utf-8", "replace")
    except OSError:
        return None
