"""Looking a host over: every vLLM process and every ring file, brought together."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kvscope.analysis.health import Diagnosis, clock_source_finding, diagnose
from kvscope.analysis.sighting import Clock, Finding, Place, RingSeen, RingThread, Sighting
from kvscope.model.errors import InputError
from kvscope.probe import ring as probe_ring
from kvscope.probe.reader import RingError, RingFile
from kvscope.sources.packages import Packages, packages
from kvscope.sources.proc import PROC, HostProcess, clock_source, inside, listens, time_namespace, vllm_processes
from kvscope.sources.run_dirs import none_in
from kvscope.vllm import installation, patchset

SYSTEM = Path("/sys")

_NAME = re.compile(r"(?P<pid>\d+)-(?P<ticks>\d+)-[0-9a-f]+\.ring")


@dataclass(frozen=True)
class HostSeen:
    """A host as `kvscope doctor` found it."""

    clock: Clock
    place: Place
    """Where this user's engines keep their rings."""
    diagnoses: tuple[Diagnosis, ...]
    dead: int
    """Ring files that dead processes left there."""
    remark: str = ""
    """That no engine records there, and where one does; empty if one does there."""

    @property
    def finding(self) -> Finding | None:
        """What is wrong with the host itself, if anything."""
        return clock_source_finding(self.clock)


def look_over(run_dir: Path, proc: Path = PROC, system: Path = SYSTEM) -> HostSeen:
    """Diagnose every vLLM process under `proc`, and every living one that has rings though `proc` does not show it."""
    clock = clock_here(proc, system)
    processes = vllm_processes(proc)
    places = {process.pid: _run_dir(process, run_dir, proc) for process in processes}
    rings = list(_rings([run_dir, *places.values()]))
    by_process = {(ring.pid, ring.start_ticks): ring for ring in rings}
    sightings = [
        _sighting(process, processes, _take(by_process, process, clock), places, proc) for process in processes
    ]
    left = by_process.values()
    sightings += [Sighting(None, ring, place(Path(ring.path).parent)) for ring in left if ring.alive or ring.fault]
    here = [ring for ring in rings if Path(ring.path).parent == run_dir]
    dead = sum(1 for ring in here if not ring.alive and not ring.fault)
    remark = "" if any(ring.alive for ring in here) else none_in(run_dir)
    return HostSeen(clock, place(run_dir), tuple(diagnose(each, clock) for each in sightings), dead, remark)


def clock_here(proc: Path = PROC, system: Path = SYSTEM) -> Clock:
    """This process's clock now."""
    monotonic, realtime, _ = probe_ring.clock_pair()
    return Clock(clock_source(system), time_namespace(proc, "self"), probe_ring.boot_id(), monotonic, realtime)


def place(directory: Path, uid: int | None = None) -> Place:
    """A run directory, or the nearest folder above it that exists: can `uid` write there, and is there room?"""
    there = next(path for path in (directory, *directory.parents) if os.path.exists(path) or path == path.parent)
    problem = ""
    if not there.is_dir():
        problem = f"{there} is not a directory"
    elif uid not in (None, 0) and os.path.exists(directory) and directory.stat().st_uid not in (uid, 0):
        problem = f"it belongs to uid {directory.stat().st_uid}, the process is of uid {uid}"
    elif uid in (None, os.geteuid()) and not os.access(there, os.W_OK | os.X_OK):
        problem = "it cannot be written"
    found = os.statvfs(there)
    return Place(str(directory), problem, found.f_bavail * found.f_frsize)


def _run_dir(process: HostProcess, run_dir: Path, proc: Path) -> Path:
    """Where the process keeps its rings, as it can be reached from here; ours if nothing says otherwise."""
    named = (process.environ or {}).get("KVSCOPE_RUN_DIR")
    theirs = Path(named) if named else Path(f"/dev/shm/kvscope-{process.uid}")
    if not theirs.is_absolute():
        return run_dir
    reached = inside(proc, process.pid, theirs)
    if not named and not os.path.exists(reached):
        return run_dir
    return next((path for path in (run_dir, theirs) if _same(path, reached)), reached)


def _same(path: Path, other: Path) -> bool:
    """Whether both are the same directory: then the process sees what we see, under a plain name."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _rings(directories: Iterable[Path]) -> Iterator[RingSeen]:
    """Each ring file once, though one directory may be reached by several ways."""
    seen: set[tuple[int, int]] = set()
    for path in (path for directory in directories for path in _listed(directory)):
        try:
            found = path.stat()
        except OSError:
            continue  # removed since it was listed
        key = found.st_dev, found.st_ino
        if key not in seen and (name := _NAME.fullmatch(path.name)):
            seen.add(key)
            yield look_at(path, int(name["pid"]), int(name["ticks"]))


def _listed(directory: Path) -> list[Path]:
    try:
        return sorted(directory.glob("*.ring"))
    except OSError:
        return []


def look_at(path: Path, pid: int, start_ticks: int) -> RingSeen:
    """One ring file; a fault instead if it cannot be read."""
    try:
        file = RingFile(path)
        threads = tuple(
            RingThread(each.thread, each.name, each.events.capacity, each.events.head()) for each in file.segments()
        )
    except RingError as error:
        return RingSeen(str(path), pid, start_ticks, fault=str(error))
    return RingSeen(str(path), pid, start_ticks, "", file.alive, file.header, file.started, threads)


def _take(rings: dict[tuple[int, int], RingSeen], process: HostProcess, clock: Clock) -> RingSeen | None:
    """The process's ring, taken out of `rings`. In another time namespace it counts its start otherwise than we do."""
    key = (process.own_pid, process.start_ticks)
    if key not in rings and process.time_namespace not in (None, clock.time_namespace):
        alike = [each for each, ring in rings.items() if each[0] == process.own_pid and ring.alive]
        key = alike[0] if len(alike) == 1 else key
    return rings.pop(key, None)


def _sighting(
    process: HostProcess,
    processes: list[HostProcess],
    ring: RingSeen | None,
    places: Mapping[int, Path],
    proc: Path,
) -> Sighting:
    installed = None if ring else packages(process, proc)
    return Sighting(
        process=process,
        ring=ring,
        place=place(places[process.pid], process.uid),
        packages=installed,
        refusal=_refusal(process, installed, proc),
        feeds_others=process.role in ("api", "coordinator") and _has_engine(process, processes),
        connector=_connector(process, processes),
        serves=_serves(process, processes, proc),
    )


def _has_engine(process: HostProcess, processes: list[HostProcess]) -> bool:
    """Whether an engine process stands beside or below it."""
    family = (process.pid, process.parent)
    return any(other.role == "core" and (other.parent in family) for other in processes)


def _server(process: HostProcess, processes: list[HostProcess]) -> HostProcess | None:
    """The API server that the process is or stands below."""
    by_pid = {each.pid: each for each in processes}
    above: HostProcess | None = process
    while above is not None and above.role != "api":
        above = by_pid.get(above.parent)
    return above


def _connector(process: HostProcess, processes: list[HostProcess]) -> bool | None:
    server = _server(process, processes)
    if server is None or "--config" in server.command:
        return None
    return "kv-transfer-config" in server.command or "kv_transfer_config" in server.command


def _serves(process: HostProcess, processes: list[HostProcess], proc: Path) -> bool | None:
    """vLLM binds its port at once and listens there when the engine has started."""
    server = _server(process, processes)
    return listens(proc, server.pid) if server else None


def _refusal(process: HostProcess, installed: Packages | None, proc: Path) -> str:
    """Why the patches do not fit what the process runs, told from the files on disk."""
    if installed is None or process.site is None:
        return ""
    base = inside(proc, process.pid, process.site)
    if not (base / "vllm").is_dir():
        return ""
    try:
        return installation.survey(patchset.folder(), base).refusal() or ""
    except InputError as error:
        return str(error)
    except OSError as error:
        return f"{error.filename} cannot be read: {(error.strerror or str(error)).lower()}"
