"""Why a vLLM process has no rings: the checks, in the order in which one hides the next."""

from __future__ import annotations

from collections.abc import Callable

from kvscope.analysis.sighting import Finding, Sighting

MIB = 1 << 20
ROOM_WANTED = 8 * MIB
"""What a process's rings take at most unless told otherwise."""
LONGEST_START_S = 1_800
"""Whoever takes no requests after that is no longer starting: it has no port, or hangs."""


def why_no_ring(seen: Sighting) -> Finding | None:
    """The first reason that holds; None while it may only be too early."""
    found = (check(seen) for check in _CHECKS)
    return next((finding for finding in found if finding), None)


def not_yet(seen: Sighting) -> Finding:
    """What can be said of a process that is still starting."""
    age = seen.process.age_s if seen.process else None
    since = "" if age is None else f", {age:.0f} s after it was started"
    return Finding(
        f"it does not take requests yet{since}: an engine has rings once its model is loaded", "look again when it does"
    )


def remedy(note: str) -> str:
    """What to do about a reason that a process noted itself."""
    lowered = note.lower()
    if "not supported" in lowered or "sha-256" in lowered or "release" in lowered:
        return "install a supported vLLM (`kvscope patch status`), or set KVSCOPE_BY_FUNCTION=1 and restart"
    if "room" in lowered or "memory" in lowered or "space" in lowered:
        return "give the shared memory more room (docker --shm-size, an emptyDir of medium Memory) and restart"
    return "mend that and restart the engine; its log says the same in a line of kvscope"


def _hidden(seen: Sighting) -> Finding | None:
    process = seen.process
    if process is None or not process.denied:
        return None
    return Finding(
        f"its {' and '.join(process.denied)} may not be read: it belongs to uid {process.uid}",
        "run this as that user, or with the right to trace it (root, CAP_SYS_PTRACE)",
    )


def _switched_off(seen: Sighting) -> Finding | None:
    if _environ(seen, "KVSCOPE") != "off":
        return None
    return Finding("KVSCOPE=off is in its environment", "remove KVSCOPE from its environment and restart it")


def _left_out(seen: Sighting) -> Finding | None:
    plugins = _environ(seen, "VLLM_PLUGINS")
    if plugins is None or "kvscope" in plugins.split(","):
        return None
    return Finding(
        f"VLLM_PLUGINS={plugins} leaves the plugin out",
        f"set VLLM_PLUGINS={plugins.strip(',')},kvscope and restart it"
        if plugins.strip(",")
        else "unset VLLM_PLUGINS, or set it to kvscope, and restart it",
    )


def _not_installed(seen: Sighting) -> Finding | None:
    if seen.packages is None or seen.packages.kvscope:
        return None
    site = seen.process.site if seen.process else None
    return Finding(
        f"kvscope is not installed in {site}", "`pip install kvscope` there, or name it in PYTHONPATH, and restart"
    )


def _installed_late(seen: Sighting) -> Finding | None:
    if seen.packages is None or not seen.packages.after_start:
        return None
    return Finding("kvscope was installed after it had started", "restart it")


def _unknown_vllm(seen: Sighting) -> Finding | None:
    return Finding(seen.refusal, remedy("not supported")) if seen.refusal else None


def _no_place(seen: Sighting) -> Finding | None:
    place = seen.place
    if place.problem:
        return Finding(
            f"{place.path}: {place.problem}", "make it writable for its user, or set KVSCOPE_RUN_DIR; restart"
        )
    if place.free_bytes is not None and place.free_bytes < ROOM_WANTED:
        return Finding(f"{place.path} has {place.free_bytes / MIB:.1f} MiB free", remedy("no room"))
    return None


def _no_connector(seen: Sighting) -> Finding | None:
    if seen.connector is not False:
        return None
    named = "" if _environ(seen, "KVSCOPE_ENGINE") else ", or name it with KVSCOPE_ENGINE to record its steps and load"
    what = "it has no KV connector, so there is no handoff to record"
    return Finding(what, f"start it with --kv-transfer-config{named}")


def _no_trace(seen: Sighting) -> Finding | None:
    if _starting(seen):
        return None
    return Finding(
        f"the plugin has left no trace in {seen.place.path}",
        "wait until the engine has started; if this stays, its log says why in a line of kvscope",
    )


def _starting(seen: Sighting) -> bool:
    age = seen.process.age_s if seen.process else None
    return seen.serves is False and (age is None or age < LONGEST_START_S)


_CHECKS: tuple[Callable[[Sighting], Finding | None], ...] = (
    _hidden,
    _switched_off,
    _left_out,
    _not_installed,
    _installed_late,
    _unknown_vllm,
    _no_place,
    _no_connector,
    _no_trace,
)


def _environ(seen: Sighting, name: str) -> str | None:
    return (seen.process.environ or {}).get(name) if seen.process else None
