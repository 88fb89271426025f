"""Whether a vLLM process records, why not, and what to do about it: a pure function of what was seen of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvscope.analysis.absence import not_yet, remedy, why_no_ring
from kvscope.analysis.sighting import Clock, Finding, Sighting
from kvscope.model.counting import count
from kvscope.probe.reader import Header

WALL_STEP_NS = 50_000_000
"""How far the wall clock may have moved against the monotonic one before it is worth a word."""

SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "xen")
"""Clock sources that the kernel does not let a program read by itself."""

INSTRUMENTED, PARTLY, OFF, NOT, FRONT = "instrumented", "partly", "off", "not instrumented", "front end"
STARTING = "starting"


@dataclass(frozen=True)
class Diagnosis:
    """What `kvscope doctor` says of one process."""

    pid: int
    """As this host numbers it where /proc shows it, else as it sees itself."""
    role: str
    engine: str
    state: str
    """One of INSTRUMENTED, PARTLY, OFF, NOT, FRONT, STARTING."""
    findings: tuple[Finding, ...]
    versions: dict[str, str]
    wall_moved_ns: int | None
    """How far the wall clock has moved against the monotonic one since the process started to record."""
    sighting: Sighting

    @property
    def good(self) -> bool:
        """Whether nothing is missing."""
        return self.state in (INSTRUMENTED, FRONT)

    @property
    def starting(self) -> bool:
        """Whether it is too early to tell."""
        return self.state == STARTING


def diagnose(seen: Sighting, clock: Clock) -> Diagnosis:
    """One process. Findings come in the order in which to act on them."""
    ring, process = seen.ring, seen.process
    moved = wall_moved(ring.header, clock) if ring and ring.header else None
    state, findings = _state(seen)
    started = (ring.started if ring else None) or {}
    pid = process.pid if process else ring.pid if ring else 0
    return Diagnosis(
        pid=pid,
        role=process.role if process else str(started.get("process") or "engine"),
        engine=str(started.get("engine") or f"pid {pid}"),
        state=state,
        findings=(*findings, *_clock_findings(seen, clock, moved)),
        versions=_versions(seen, started),
        wall_moved_ns=moved,
        sighting=seen,
    )


def wall_moved(header: Header, clock: Clock) -> int | None:
    """ns that the wall clock gained on the monotonic one since the header was written; None across a reboot."""
    if header.boot_id != clock.boot_id:
        return None
    return (clock.realtime_ns - header.realtime_ns) - (clock.monotonic_ns - header.monotonic_ns)


def clock_source_finding(clock: Clock) -> Finding | None:
    """A clock source that makes each moment dear, if this host has one."""
    if clock.source not in SLOW_CLOCKS:
        return None
    return Finding(
        f"the clock source {clock.source} costs a system call for each moment", "have the kernel use tsc or kvm-clock"
    )


def _state(seen: Sighting) -> tuple[str, tuple[Finding, ...]]:
    ring = seen.ring
    if ring is None:
        return (FRONT, ()) if seen.feeds_others else _state_without_ring(seen)
    if ring.header is None:
        return NOT, (Finding(ring.fault, "use the same kvscope on both sides"),)
    return _state_of_ring(ring.header, (ring.started or {}).get("missing_functions"))


def _state_without_ring(seen: Sighting) -> tuple[str, tuple[Finding, ...]]:
    reason = why_no_ring(seen)
    return (NOT, (reason,)) if reason else (STARTING, (not_yet(seen),))


def _state_of_ring(header: Header, missing: object) -> tuple[str, tuple[Finding, ...]]:
    findings = tuple(_ring_findings(header))
    if isinstance(missing, list) and missing:
        findings += (Finding(f"no moments from {', '.join(map(str, missing))}", "port the patches to this vLLM"),)
    if not header.on:
        return OFF, findings
    if header.note and not header.segments:
        return NOT, findings
    return (PARTLY if findings else INSTRUMENTED), findings


def _ring_findings(header: Header) -> Iterator[Finding]:
    if header.self_off:
        yield Finding(
            f"it switched itself off: {header.self_off}", "report it with this sentence; `kvscope on` tries again"
        )
    elif not header.on:
        yield Finding("it was switched off", "`kvscope on` switches it on")
    if header.note:
        yield Finding(header.note, remedy(header.note))
    if header.refused:
        yield Finding(
            f"{count(header.refused, 'event')} found no room in its rings",
            "give KVSCOPE_SHM_BYTES or the shared memory more room",
        )
    if header.errors and not header.self_off:
        failed = f"{count(header.errors, 'event')} failed inside the probe"
        yield Finding(failed, "report it; its numbers miss what failed")
    if header.untold:
        yield Finding(
            f"{count(header.untold, 'text')} did not fit a ring of texts",
            "raise KVSCOPE_RING_EVENTS: ids among them are unreadable",
        )


def _clock_findings(seen: Sighting, clock: Clock, moved: int | None) -> Iterator[Finding]:
    theirs = seen.process.time_namespace if seen.process else None
    if theirs and clock.time_namespace and theirs != clock.time_namespace:
        yield Finding(
            f"its clock is another one ({theirs}, ours is {clock.time_namespace})",
            "treat it as another host: its times cannot be set beside those of others here",
        )
    if moved is not None and abs(moved) > WALL_STEP_NS:
        yield Finding(
            f"the wall clock moved {moved / 1e6:+,.1f} ms since it started to record",
            "look at this host's time service: `arrived` is taken from the wall clock",
        )


def _versions(seen: Sighting, started: dict[str, object]) -> dict[str, str]:
    installed = seen.packages
    found = {
        "vllm": started.get("vllm") or (installed and installed.vllm),
        "nixl": started.get("nixl") or (installed and installed.nixl),
        "torch": started.get("torch") or (installed and installed.torch),
        "kvscope": installed and installed.kvscope,
        "release": started.get("release"),
        "patches": started.get("patches"),
        "applied": started.get("applied"),
    }
    return {name: str(value) for name, value in found.items() if value}
