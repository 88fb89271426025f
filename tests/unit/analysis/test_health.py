"""What is said of a process, from what was seen of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kvscope.analysis.health import FRONT, INSTRUMENTED, NOT, OFF, PARTLY, STARTING, clock_source_finding, diagnose
from kvscope.analysis.sighting import Clock, Place, RingSeen, Sighting
from kvscope.probe.reader import Header
from kvscope.sources.packages import Packages
from kvscope.sources.proc import HostProcess

MS = 1_000_000
CLOCK = Clock("tsc", "time:[1]", "boot", 10_000 * MS, 90_000 * MS)
HEADER = Header(
    pid=7,
    start_ticks=4242,
    boot_id="boot",
    monotonic_ns=1_000 * MS,
    realtime_ns=81_000 * MS,
    clock_error_ns=50,
    stated_bytes=8 << 20,
    file_bytes=1 << 20,
    segments=2,
    on=True,
    self_off="",
    note="",
    errors=0,
    refused=0,
    untold=0,
)
PROCESS = HostProcess(
    pid=107,
    role="core",
    command="VLLM::EngineCore",
    uid=1000,
    parent=100,
    own_pid=7,
    start_ticks=4242,
    environ={"PATH": "/bin"},
    site=Path("/venv/site-packages"),
    time_namespace="time:[1]",
)
PACKAGES = Packages("0.32.0", "1.5.1", "2.13.0", "0.1.0")
RING = RingSeen("/run/7.ring", 7, 4242, "", True, HEADER, {"engine": "p0", "vllm": "0.32.0"})
PLACE = Place("/dev/shm/kvscope-1000", "", 1 << 30)
BARE = Sighting(PROCESS, None, PLACE, PACKAGES, connector=True)


def with_header(**changed: object) -> Sighting:
    header = replace(HEADER, **changed)  # type: ignore[arg-type]
    return Sighting(PROCESS, replace(RING, header=header), PLACE)


def with_environ(**environ: str) -> Sighting:
    return replace(BARE, process=replace(PROCESS, environ=environ))


def test_a_process_with_a_ring_that_is_on_is_instrumented() -> None:
    found = diagnose(with_header(), CLOCK)
    assert (found.state, found.good, found.findings) == (INSTRUMENTED, True, ())
    assert (found.engine, found.pid, found.role) == ("p0", 107, "core")
    assert found.wall_moved_ns == 0
    assert found.versions["vllm"] == "0.32.0"


@pytest.mark.parametrize(
    ("seen", "state", "said", "advice"),
    [
        (with_header(on=False), OFF, "was switched off", "kvscope on"),
        (with_header(on=False, self_off="100 errors"), OFF, "switched itself off: 100 errors", "report it"),
        (with_header(segments=0, note="x.py has SHA-256 abc"), NOT, "x.py has SHA-256 abc", "kvscope patch status"),
        (with_header(note="no room for thread w", refused=3), PARTLY, "no room for thread w", "--shm-size"),
        (with_header(refused=3), PARTLY, "3 events found no room", "KVSCOPE_SHM_BYTES"),
        (with_header(errors=2), PARTLY, "2 events failed inside the probe", "report it"),
        (with_header(untold=2), PARTLY, "2 texts did not fit", "KVSCOPE_RING_EVENTS"),
        (
            replace(BARE, ring=RingSeen("/run/7.ring", 7, 4242, "layout version 9")),
            NOT,
            "layout version 9",
            "same kvscope",
        ),
        (
            replace(BARE, process=replace(PROCESS, environ=None, denied=("environ", "maps"))),
            NOT,
            "environ and maps may not be read: it belongs to uid 1000",
            "CAP_SYS_PTRACE",
        ),
        (with_environ(KVSCOPE="off"), NOT, "KVSCOPE=off", "restart"),
        (with_environ(VLLM_PLUGINS="a,b"), NOT, "VLLM_PLUGINS=a,b leaves", "VLLM_PLUGINS=a,b,kvscope"),
        (with_environ(VLLM_PLUGINS=""), NOT, "VLLM_PLUGINS= leaves", "unset VLLM_PLUGINS"),
        (
            replace(BARE, packages=replace(PACKAGES, kvscope=None)),
            NOT,
            "not installed in /venv/site-packages",
            "pip install kvscope",
        ),
        (replace(BARE, packages=replace(PACKAGES, after_start=True)), NOT, "after it had started", "restart it"),
        (replace(BARE, refusal="vLLM 9 is not supported: a.py"), NOT, "vLLM 9 is not supported", "patch status"),
        (replace(BARE, place=Place("/run/x", "it cannot be written")), NOT, "/run/x: it cannot", "KVSCOPE_RUN_DIR"),
        (replace(BARE, place=Place("/run/x", "", 1 << 20)), NOT, "1.0 MiB free", "--shm-size"),
        (replace(BARE, connector=False), NOT, "no KV connector", "or name it with KVSCOPE_ENGINE"),
        (with_environ(VLLM_PLUGINS="a,kvscope"), NOT, "left no trace", "its log says why"),
    ],
)
def test_each_reason_is_named_with_what_to_do(seen: Sighting, state: str, said: str, advice: str) -> None:
    found = diagnose(seen, CLOCK)
    assert found.state == state
    assert not found.good
    assert said in found.findings[0].what
    assert advice in found.findings[0].do


def test_an_api_server_whose_engine_is_elsewhere_records_nothing_and_is_well() -> None:
    found = diagnose(replace(BARE, process=replace(PROCESS, role="api"), feeds_others=True), CLOCK)
    assert (found.state, found.good) == (FRONT, True)


def starting(age_s: float | None, **seen: object) -> Sighting:
    young = replace(BARE, process=replace(PROCESS, age_s=age_s), serves=False)
    return replace(young, **seen)  # type: ignore[arg-type]


def test_who_takes_no_requests_yet_is_starting() -> None:
    found = diagnose(starting(43.4), CLOCK)
    assert (found.state, found.starting, found.good) == (STARTING, True, False)
    assert "does not take requests yet, 43 s after it was started" in found.findings[0].what
    assert "look again" in found.findings[0].do
    assert diagnose(starting(None), CLOCK).state == STARTING


@pytest.mark.parametrize(
    "seen",
    [
        starting(7_200.0),
        starting(43.4, serves=True),
        starting(43.4, serves=None),
        starting(43.4, connector=False),
        starting(43.4, packages=replace(PACKAGES, kvscope=None)),
    ],
    ids=["old", "serves", "unknown", "no connector", "not installed"],
)
def test_what_can_be_told_already_is_not_put_off(seen: Sighting) -> None:
    assert diagnose(seen, CLOCK).state == NOT


def test_functions_without_moments_are_named() -> None:
    started: dict[str, object] = {"engine": "p0", "missing_functions": ["Scheduler.schedule"]}
    found = diagnose(Sighting(PROCESS, replace(RING, started=started), PLACE), CLOCK)
    assert found.state == PARTLY
    assert "Scheduler.schedule" in found.findings[0].what


def test_another_clock_is_said() -> None:
    process = replace(PROCESS, time_namespace="time:[2]")
    found = diagnose(Sighting(process, RING, PLACE), CLOCK)
    assert "time:[2]" in found.findings[0].what
    assert found.good


def test_a_step_of_the_wall_clock_is_said_and_one_across_a_boot_is_not_known() -> None:
    found = diagnose(with_header(realtime_ns=HEADER.realtime_ns - 300 * MS), CLOCK)
    assert found.wall_moved_ns == 300 * MS
    assert "+300.0 ms" in found.findings[0].what
    assert diagnose(with_header(boot_id="other"), CLOCK).wall_moved_ns is None


def test_a_ring_without_a_process_in_sight_is_still_diagnosed() -> None:
    found = diagnose(Sighting(None, RING, PLACE), CLOCK)
    assert (found.state, found.pid, found.engine) == (INSTRUMENTED, 7, "p0")


def test_a_slow_clock_source_is_said() -> None:
    assert clock_source_finding(CLOCK) is None
    found = clock_source_finding(replace(CLOCK, source="hpet"))
    assert found is not None
    assert "hpet" in found.what
