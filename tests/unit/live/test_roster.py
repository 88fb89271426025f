"""Who takes part: on which side, and who is known and does not record."""

from __future__ import annotations

from kvscope.live.enginefigures import latest_loads
from kvscope.live.roster import Roster, gather_roster
from kvscope.live.seats import seats_of
from kvscope.model.events import Process

from .fleet import request, stretch
from .picture import Items, load, picture, started


def roster(items: Items, now_s: float = 5, dark: tuple[Process, ...] = ()) -> Roster:
    shown = picture(items, now_s, dark=dark)
    seats = seats_of(shown)
    return gather_roster(shown, seats, latest_loads(shown.scoped, seats))


def flat(parts: list[Items]) -> Items:
    return [item for part in parts for item in part]


def test_roles_are_told_before_there_is_traffic() -> None:
    found = roster([started("a", role="kv_producer"), started("b", role="kv_consumer"), started("c", role="kv_both")])
    assert (found.prefill.engines, found.decode.engines, found.untold.engines) == (("a",), ("b",), ("c",))
    assert (found.prefill.known, found.recording) == (1, 3)


def test_else_requests_show_them() -> None:
    found = roster(flat(stretch("early", 0, 2)))
    assert (found.prefill.engines, found.decode.engines, found.untold.known) == (("p0",), ("d0",), 0)


def test_a_router_is_no_engine() -> None:
    found = roster([started("router", dispatch="early"), *request("early", 1, 0)])
    assert (found.routers, found.recording) == (1, 2)


def test_an_engine_that_told_why_it_is_dark_is_known_and_does_not_record() -> None:
    dark = Process("d-9", started={"role": "kv_consumer"}, note="this release is not supported")
    found = roster(flat(stretch("early", 0, 2)), dark=(dark,))
    assert (found.decode.engines, found.decode.dark, found.decode.known) == (("d0",), ("d-9",), 2)
    assert found.dark == ("d-9",)


def test_requests_seen_from_one_side_show_that_the_other_has_engines_too() -> None:
    found = roster([item for item in flat(stretch("pull", 0, 3)) if item["engine"] != "p0"], 8)
    assert (found.prefill.engines, found.prefill.unseen, found.prefill.known) == ((), True, 1)
    assert (found.decode.known, found.decode.unseen) == (1, False)


def test_an_engine_that_fell_silent_with_work_left_is_known_and_gone() -> None:
    items = [*flat(stretch("early", 0, 20)), started("d-7", role="kv_consumer"), load("d-7", 3000, 2, 1, 0, 10)]
    found = roster(items, 20)
    assert (found.decode.engines, found.gone, found.decode.known) == (("d0",), ("d-7",), 2)


def test_an_engine_started_anew_is_one() -> None:
    dead = Process("d0", engine_id="before", note="it crashed")
    found = roster(
        [{**item, "engine_id": item["engine"] + "-id"} for item in flat(stretch("early", 0, 2))], dark=(dead,)
    )
    assert (found.decode.engines, found.decode.dark) == (("d0",), ())
