"""What agents send is counted once, to the record, whoever is killed meanwhile: real rings, processes, signals."""

from __future__ import annotations

import pytest

from ..live.conftest import View, until
from .conftest import Fleet

BURST = 700
LAPPED = 20_000
"""More than a ring holds: its oldest are overwritten before anybody reads them."""


def equal(fleet: Fleet) -> None:
    """Every record that a ring ever took is in the folder once, or is counted as lost."""
    written = fleet.written()
    fleet.until_all_came(sum(written.values()))
    held, lost = fleet.counted()
    assert {engine: held.get(engine, 0) + lost.get(engine, 0) for engine in written} == written


@pytest.mark.slow
def test_nothing_is_missing_or_counted_twice_when_agents_and_the_aggregator_are_killed_in_turn(fleet: Fleet) -> None:
    fleet.serve()
    engines = {name: fleet.engine(name, host) for name, host in (("p0", "a"), ("d0", "b"))}
    for host in ("a", "b"):
        fleet.agent(host)
    view = View(f"localhost:{fleet.port}")
    try:
        for round_ in range(4):
            for engine in engines.values():
                engine.tell(f"write {BURST}")
                engine.tell(f"write {BURST} writer")
            until(lambda: fleet.told()["batches"] > 1, "no batch comes")
            view.poll()
            for engine in engines.values():
                engine.tell(f"write {BURST}")
            if round_ % 2:
                fleet.kill_server()
                engines["p0"].tell(f"write {BURST}")
                fleet.kill("b")
                fleet.serve()
                fleet.agent("b")
            else:
                fleet.kill("a")
                engines["p0"].tell(f"write {BURST}")
                fleet.agent("a")
        equal(fleet)
        written = sum(fleet.written().values())
        assert sum(fleet.counted()[1].values()) == 0
        read = fleet.read()
        assert set(read.rows["request"].tolist()) <= set(read.texts), "every id is told, whoever told it"
        view.until_count(written)
        assert view.count() == written
        assert sum(process.lost for process in view.last.events.processes) == 0
    finally:
        view.close()


@pytest.mark.slow
def test_what_rings_overwrote_while_no_agent_was_there_is_counted_to_the_record(fleet: Fleet) -> None:
    fleet.serve()
    engine = fleet.engine("p0", "a")
    engine.tell(f"write {BURST}")
    fleet.agent("a")
    fleet.until_all_came(BURST)
    fleet.kill("a")
    engine.tell(f"write {LAPPED}")
    fleet.agent("a")
    equal(fleet)
    assert sum(fleet.counted()[1].values()) > 0


@pytest.mark.slow
def test_what_the_spool_had_no_room_for_is_lost_to_the_record(fleet: Fleet) -> None:
    engine = fleet.engine("p0", "a")
    fleet.port = 1  # nobody listens there
    agent = fleet.agent("a", "--spool-size", "1MB", "--interval", "20ms")
    agent.until_it_says("nothing listens")

    def dropped() -> bool:
        engine.tell("write 8000")
        return (fleet.host("a") / "spool" / "dropped.json").exists()

    until(dropped, "nothing is dropped")
    fleet.kill("a")
    fleet.port = 0
    fleet.serve()
    fleet.agent("a")
    equal(fleet)


def test_an_agent_without_its_spool_goes_on_from_what_the_aggregator_has(fleet: Fleet) -> None:
    fleet.serve()
    engine = fleet.engine("p0", "a")
    fleet.agent("a")
    engine.tell(f"write {BURST}")
    fleet.until_all_came(BURST)
    fleet.kill("a")
    engine.tell(f"write {BURST}")
    for path in (fleet.host("a") / "spool").iterdir():
        path.unlink()
    fleet.agent("a")
    equal(fleet)
    assert sum(fleet.counted()[0].values()) == 2 * BURST
