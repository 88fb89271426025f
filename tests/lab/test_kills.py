"""SIGKILL to a part of a real engine in the middle of a load: what it had published stays, whole and readable."""

from __future__ import annotations

import os
import signal
import struct
import threading
from collections.abc import Iterator
from time import monotonic

import pytest

from kvscope.core.legs import gather_legs
from kvscope.lab.client import ClientRecord
from kvscope.lab.load import LoadOptions
from kvscope.lab.pair import PairOptions
from kvscope.model.events import Events
from kvscope.probe import layout
from kvscope.probe.reader import RingFile, list_rings
from kvscope.probe.vocabulary import MOMENT_CODE
from kvscope.sources.rings import Rings, read_rings
from tests.lab.rig import Rig, rows_of, with_env

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

LOAD = LoadOptions(requests=40, rate=5, input_tokens=((300, 1.0),), output_tokens=8, warm_up=1, timeout_s=30)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Two prefill engines and a decode engine that record, a decode engine that is told not to; and in their
    run directory what an older kvscope may have left."""
    made = Rig(
        PairOptions(connector="pull", prefills=2, decodes=2),
        tmp_path_factory.mktemp("kills"),
        {"d1": with_env(KVSCOPE="off")},
    )
    foreign = struct.pack("=QQ", layout.MAGIC, layout.VERSION + 1).ljust(1 << 16, b"\1")
    (made.run_dir / "1-2-older.ring").write_bytes(foreign)
    with made:
        yield made


class Reader(threading.Thread):
    """Reads the rings over and over, from the beginning each time, until it is told to end."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(name="reader")
        self._rig, self._over = rig, threading.Event()
        self.latest: Events | None = None
        self.error: Exception | None = None
        self.reads = 0

    def run(self) -> None:
        while not self._over.wait(0.02):
            try:
                self.latest = read_rings(self._rig.run_dir)
                self.reads += 1
            except Exception as error:  # noqa: BLE001 - told to the test
                self.error = error
                return

    def end(self) -> None:
        self._over.set()
        self.join()


def published(events: Events) -> set[tuple[int, bytes]]:
    """Every event as (pid, its bytes)."""
    rows = events.rows.copy()
    pids = [events.processes[index].pid for index in rows["process"].tolist()]
    rows["process"] = 0
    return {(pid, row.tobytes()) for pid, row in zip(pids, rows, strict=True)}


def ring_of(rig: Rig, engine: str, process: str) -> RingFile:
    """The ring file of an engine's `core` or `worker`."""
    (found,) = (
        ring for ring in list_rings(rig.run_dir, []) if ring.engine == engine and ring.started.get("process") == process
    )
    return found


@pytest.mark.parametrize(
    ("prefill", "decode", "victim"),
    [("p0", "d0", ("d0", "worker")), ("p1", "d1", ("p1", "core")), ("p0", "d1", ("p0", "worker"))],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
def test_what_was_published_survives(rig: Rig, prefill: str, decode: str, victim: tuple[str, str]) -> None:
    ring, reader, records = ring_of(rig, *victim), Reader(rig), list[ClientRecord]()
    router = rig.front(prefill, decode)
    load = threading.Thread(target=lambda: records.extend(rig.load(LOAD, router.url)), name="load")
    before = computed(read_rings(rig.run_dir))
    reader.start()
    load.start()
    try:
        await_computed(rig, before + 12)
        assert ring.alive
        seen = read_rings(rig.run_dir)
        os.kill(ring.header.pid, signal.SIGKILL)
        load.join()
    finally:
        reader.end()
        load.join()
        router.process.stop()
    assert reader.error is None
    assert reader.reads > 10
    assert 0 < sum(record.ok for record in records) < len(records), "killed in the middle"
    dead = ring_of(rig, *victim)
    assert not dead.alive
    after = Rings(rig.run_dir)
    events = after.poll()
    assert published(seen) <= published(events)
    assert ring.header.pid in {pid for pid, _ in published(events)}
    tally = gather_legs(events).tally
    assert (tally.out_of_bounds, tally.lost, tally.duplicates) == (0, 0, 0)
    assert [fault for fault in after.faults if "layout version" not in fault] == []
    assert len(after.faults) == 1


def test_who_was_told_not_to_record_left_nothing(rig: Rig) -> None:
    assert "d1" not in {ring.engine for ring in list_rings(rig.run_dir, [])}
    assert not any("kvscope:" in line for line in rig["d1"].process.lines())


def computed(events: Events) -> int:
    """How many prefills were finished."""
    return len(rows_of(events, MOMENT_CODE["computed"]))


def await_computed(rig: Rig, count: int) -> None:
    """Wait until so many are."""
    deadline, pause = monotonic() + 120, threading.Event()
    while computed(read_rings(rig.run_dir)) < count:
        assert monotonic() < deadline
        pause.wait(0.05)
