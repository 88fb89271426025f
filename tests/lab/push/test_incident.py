"""A router that calls decode late from some time on: `kvscope serve` saves that, from before it to after it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kvscope.core.critical_path import split
from kvscope.lab.client import ClientRecord
from kvscope.lab.front import RouterProcess
from kvscope.lab.load import LoadOptions
from kvscope.lab.pair import Pair
from kvscope.lab.recording import recording
from kvscope.model.requests import RequestSplit
from kvscope.sources import open_sources
from kvscope.sources.opening import Opened
from kvscope.stacks.reading import Stacks, read_stacks
from tests.integration.live.conftest import until
from tests.lab.bystanders import Bystanders, watching
from tests.lab.rig import Rig
from tests.lab.screens import printed, served

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

SECOND, MS = 1_000_000_000, 1_000_000
HOLD_MS, LIMIT_MS = 250, 200
BEFORE_S, AFTER_S = 30, 10
HEALTHY = LoadOptions(
    requests=50, rate=2.5, arrivals="fixed", input_tokens=((300, 1.0),), output_tokens=6, warm_up=3
)  # 20 s
LATE = LoadOptions(requests=40, rate=2.5, arrivals="fixed", input_tokens=((300, 1.0),), output_tokens=6, warm_up=0)
MOST_BYTES = 32
"""An event of a recording, at most."""


@dataclass(frozen=True)
class Incident:
    """What was saved, and what was sent."""

    path: Path
    account: dict[str, Any]
    opened: Opened
    stacks: Stacks
    healthy: list[ClientRecord]
    late: list[ClientRecord]
    recorded: Path
    """The same load, as `kvscope record` writes it"""
    bystanders: Bystanders

    @property
    def trigger(self) -> int:
        """ns of the events' clock"""
        return int(self.account["times"]["trigger"]["ns"])


@pytest.fixture(scope="module")
def incident(
    push_pair: Rig, push_router: RouterProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Incident]:
    """A push pair whose router holds the decode leg back, from some time on."""
    folder = tmp_path_factory.mktemp("incident")
    with keeping(push_pair, folder / "saved"):
        yield seen(push_pair, push_router, folder)


@contextmanager
def keeping(pair: Pair, folder: Path) -> Iterator[None]:
    """A server that keeps the last minutes of a pair, stacks too."""
    words = ["--save-to", str(folder), "--trigger", f"dispatch>{LIMIT_MS}ms", "--pause", "1s", "--stacks"]
    with served(pair.run_dir, 0, *words, "--before", f"{BEFORE_S}s", "--after", f"{AFTER_S}s"):
        yield


def seen(pair: Pair, router: RouterProcess, folder: Path) -> Incident:
    """Send both loads, and wait for what is saved of them."""
    recorded = folder / "recorded.kvs"
    router.control(dispatch="sequential", hold_ms=0.0)
    with recording(pair.run_dir, recorded), watching() as watch:
        healthy = pair.load(HEALTHY, router.url)
        router.control(hold_ms=HOLD_MS)
        late = pair.load(LATE, router.url)
        router.control(hold_ms=0.0)
    ids = {record.request for record in late}
    until(lambda: found(folder / "saved", ids) is not None, "the incident was not saved")
    path = found(folder / "saved", ids)
    assert path is not None
    account = json.loads((path / "incident.json").read_text())
    return Incident(
        path,
        account,
        open_sources([path]),
        read_stacks(path / "stacks.jsonl"),
        healthy,
        late,
        recorded,
        watch.bystanders,
    )


def found(folder: Path, ids: set[str]) -> Path | None:
    """The incident that a late request set off, once it is complete. A busy machine may set off others before."""
    for path in sorted(folder.glob("incident-*/incident.json")):
        told = json.loads(path.read_text())
        named = [each["request"] for each in told["cause"]["requests"]]
        if told["complete"] and any(sent in name for name in named for sent in ids):
            return path.parent
    return None


def requests(incident: Incident, records: list[ClientRecord]) -> list[RequestSplit]:
    """What the incident's recording says of requests that were sent, as far as it holds them whole."""
    splits = split(incident.opened.events)
    rows = [row for record in records for row in splits.find(record.request)]
    return [each for row in rows if (each := splits[row]).complete]


def test_it_names_what_set_it_off(incident: Incident) -> None:
    cause = incident.account["cause"]
    value = cause["value_ns"] / MS
    print(f"\n{cause['what']}: {value:.0f} ms, {cause['count']} request(s); ended by {incident.account['ended_by']}")
    assert (cause["what"], cause["limit_ns"]) == (f"dispatch>{LIMIT_MS}ms", LIMIT_MS * MS)
    assert value >= HOLD_MS
    assert {each["decode_engine"] for each in cause["requests"]} == {"d0"}
    assert {each["engine"] for each in incident.account["engines"]} >= {"p0", "d0"}
    noticed = incident.trigger - min(each["first_token_ns"] for each in cause["requests"])
    print(f"noticed {noticed / MS:.0f} ms after the first token")
    assert noticed < 5 * SECOND


def test_it_holds_what_was_before_and_after(incident: Incident) -> None:
    times = incident.opened.events.rows["t"]
    times = times[times != 0]
    before, after = (incident.trigger - int(times.min())) / SECOND, (int(times.max()) - incident.trigger) / SECOND
    size = (incident.path / "recording.kvs").stat().st_size
    print(f"\n{before:.1f} s before to {after:.1f} s after, {len(times):,} events, {size / len(times):.1f} bytes each")
    assert incident.opened.notes == ()
    assert before >= 10
    assert after >= 5
    assert incident.account["recording"]["lost"] == 0
    assert size / len(times) <= MOST_BYTES


def test_the_requests_of_both_times_are_in_it(incident: Incident) -> None:
    healthy, late = requests(incident, incident.healthy), requests(incident, incident.late)
    fast = sum(each.exposed.get("dispatch", 0) < LIMIT_MS * MS for each in healthy)
    print(f"\n{len(healthy)} requests from before the router held, {fast} of them fast; {len(late)} that it held")
    assert len(healthy) >= 20
    assert len(late) >= 10
    # Where prefill is late with its blocks, part of the hold is hidden behind that.
    slow = sum(each.exposed.get("dispatch", 0) >= HOLD_MS * MS for each in late)
    assert slow >= incident.bystanders.choose(quiet=len(late), busy=len(late) / 2)
    assert fast >= incident.bystanders.choose(quiet=len(healthy) - 1, busy=len(healthy) / 2)


def test_its_stacks_are_of_both_engines_from_the_trigger_on(incident: Incident) -> None:
    times = incident.stacks.samples["t"]
    begun, ended = ((int(t) - incident.trigger) / SECOND for t in (times.min(), times.max()))
    told = incident.account["stacks"]
    print(
        f"\n{len(times):,} samples from {begun:.1f} to {ended:.1f} s after the trigger; {told['faults'] or 'no faults'}"
    )
    assert 0 < begun <= 5
    assert ended >= 5
    engines = {thread.engine for thread in incident.stacks.threads}
    assert engines >= {"p0", "d0"}


def test_the_report_reads_it(incident: Incident) -> None:
    told = json.loads(printed("report", "--json", str(incident.path)))
    timed = [request for request in told["requests"] if request["ttft_ns"] is not None]
    assert len(timed) >= 30
    assert "dispatch" in printed("report", "--plain", str(incident.path))


def test_an_event_takes_no_more_than_32_bytes_in_a_recording(incident: Incident) -> None:
    events, size = len(open_sources([incident.recorded]).events), incident.recorded.stat().st_size
    print(f"\n{events:,} events, {size / events:.1f} bytes each")
    assert size / events <= MOST_BYTES
