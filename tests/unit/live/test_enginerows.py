"""Each figure of an engine, told apart from what its neighbours have."""

from __future__ import annotations

from kvscope.analysis.summary import gather_summary
from kvscope.live.enginedata import Data
from kvscope.live.enginefigures import Backlog, Load, Trouble
from kvscope.live.enginerows import EngineRow, engine_rows
from kvscope.live.snapshot import Snapshot
from kvscope.model.events import Process

from ..core.scene import D_LEG, MS, P_LEG, moment, moments, push_early
from .fleet import request, stretch
from .picture import Items, load, picture, started, steps

PUSH = {"mode": "push", "placement": "writer", "kv_blocks": 1_000}


def rows_of(snapshot: Snapshot) -> dict[str, EngineRow]:
    return {row.name: row for row in engine_rows(snapshot)}


def flat(parts: list[Items]) -> Items:
    return [item for part in parts for item in part]


def under_way(number: int, until_ms: float) -> Items:
    """The first worked example, cut off at `until_ms`."""
    return [item for item in request("early", number, 0) if item["t"] <= until_ms * MS]


def test_roles_are_the_requests_and_one_engine_can_have_both() -> None:
    other = {"p0": "d0", "d0": "p0"}
    turned = [{key: other.get(value, value) for key, value in item.items()} for item in request("early", 99, 500)]
    rows = rows_of(picture([*flat(stretch("early", 0, 1)), *turned, *steps("x0", [5])], 3))
    assert {name: row.roles for name, row in rows.items()} == {
        "d0": ("prefill", "decode"),
        "p0": ("prefill", "decode"),
        "x0": (),
    }
    assert rows["p0"].queue == {"prefill": 3 * MS, "decode": 1 * MS}


def test_load_and_blocks_are_what_was_told_last() -> None:
    told = [started("d0", **PUSH), load("d0", 5, 9, 9, 9, 9), load("d0", 10, 3, 2, 1, 400), load("p0", 2, 1, 0, 0, 7)]
    rows = rows_of(picture(told, 2))
    assert rows["d0"].load == Load(waiting=3, running=2, held=1, free_blocks=400)
    assert (rows["d0"].used_blocks, rows["d0"].kv_blocks) == (600, 1_000)
    assert (rows["p0"].used_blocks, rows["p0"].kv_blocks, rows["p0"].idle_blocks) == (None, None, None)


def test_idle_blocks_are_those_reserved_and_not_transferred() -> None:
    items = [*under_way(1, 60), *under_way(2, 60), *request("early", 3, 0)]
    items = [{**item, "blocks": 8} if item["moment"] == "reserved" else item for item in items]
    assert rows_of(picture(items, 0.08))["d0"].idle_blocks == 16


def test_idle_blocks_are_not_known_where_one_request_did_not_tell_its_own() -> None:
    told = [{**item, "blocks": 8} if item["moment"] == "reserved" else item for item in under_way(1, 60)]
    assert rows_of(picture([*told, *under_way(2, 60)], 0.08))["d0"].idle_blocks is None


def test_steps_and_the_connector_agree_with_the_report() -> None:
    items = [*flat(stretch("early", 0, 1)), *steps("d0", [10.0] * 90 + [40.0] * 10), *steps("p0", [200.0], share=0.5)]
    snapshot = picture(items, 2)
    rows = rows_of(snapshot)
    assert (rows["d0"].step_p50, rows["d0"].step_p95) == (10 * MS, 40 * MS)
    reported = gather_summary(snapshot.scoped, snapshot.window).price.connector
    assert {step.engine: step.share for step in reported} == {
        name: rows[name].connector_share for name in ("d0", "p0")
    } == {"d0": 0.1, "p0": 0.5}  # fmt: skip


def test_the_writers_backlog_is_what_was_handed_to_it_and_is_not_done() -> None:
    handed = [*moments(P_LEG, arrived=0, taken=1, queued=2, scheduled=5, computed=105, handed=107)]
    waiting = moments({**D_LEG, "request": "cmpl-y-0-bbbbbbbb"}, arrived=2, taken=3, queued=3, reserved=4, handed=5)
    sent = [*moments(D_LEG, arrived=2, taken=3, queued=3, reserved=4, handed=5, registration_sent=5)]
    rows = rows_of(picture([*handed, *sent, *waiting, *request("early", 3, 0)], 0.5))
    assert rows["p0"].backlog == Backlog(blocks=1, registrations=1)
    assert rows["d0"].backlog == Backlog(blocks=0, registrations=1)
    assert rows_of(picture(flat(stretch("pull", 0, 1)), 2))["d0"].backlog is None


def test_the_writers_wake_up_is_prefills() -> None:
    rows = rows_of(picture(flat(stretch("early", 0, 1)), 2))
    assert (rows["p0"].wake_p95, rows["d0"].wake_p95) == (1 * MS, None)


def test_failures_are_counted_where_they_struck_and_by_kind() -> None:
    struck = [
        moment({**D_LEG, "request": f"cmpl-{number}-0-bbbbbbbb"}, "failed", 10 + number, reason=reason)
        for number, reason in enumerate(("push_reg_handshake_failed", "registration_expired", "transfer_failed"))
    ]
    more = moment({**P_LEG, "request": "cmpl-9-0-aaaaaaaa"}, "failed", 40, reason="lease_expired")
    meetings = [moment({"engine": "d0"}, name, ms) for name, ms in (("handshake_begun", 1), ("handshake_ended", 3))]
    rows = rows_of(picture([*struck, more, *meetings], 1))
    assert rows["d0"].trouble == Trouble(handshakes=1, expired=1, other=1)
    assert rows["p0"].trouble == Trouble(handshakes=0, expired=1, other=0)
    assert (rows["d0"].handshakes, rows["p0"].handshakes) == (1, 0)


def test_an_engine_that_records_nothing_is_a_row_with_its_reason() -> None:
    why = "vLLM 0.12.0 is not supported"
    row = rows_of(picture(flat(stretch("early", 0, 1)), 2, dark=(Process("pid 17", note=why),)))["pid 17"]
    assert (row.data, row.reasons, row.silent, row.load) == (Data.DARK, (why,), None, None)


def test_an_engine_without_some_of_its_functions_is_partly_instrumented() -> None:
    rows = rows_of(picture([started("d0", missing_functions=["poll", "post"]), started("p0", missing_functions=[])], 1))
    assert (rows["d0"].data, rows["d0"].reasons) == (Data.PARTLY, ("no moments from poll, post",))
    assert rows["p0"].data is Data.INSTRUMENTED


def test_gone_is_one_that_had_work_and_is_silent_while_others_go_on() -> None:
    busy, idle = load("d0", 990, 0, 3, 0, 10), load("d0", 990, 0, 0, 0, 10)
    going_on = steps("p0", [1000.0] * 9)
    gone = rows_of(picture([busy, *going_on], 9.5))["d0"]
    assert (gone.data, gone.silent) == (Data.GONE, round(8.51 * 1000) * MS)
    assert rows_of(picture([idle, *going_on], 9.5))["d0"].data is Data.INSTRUMENTED
    assert rows_of(picture([busy, *going_on], 5.5))["d0"].data is Data.INSTRUMENTED
    assert rows_of(picture([busy, *going_on[:1]], 9.5))["d0"].data is Data.INSTRUMENTED


def test_a_request_under_way_is_work_where_no_load_was_told() -> None:
    items = [*under_way(1, 60), *steps("other", [1000.0] * 9)]
    assert {name: row.data for name, row in rows_of(picture(items, 9.5)).items()} == {
        "d0": Data.GONE,
        "p0": Data.GONE,
        "other": Data.INSTRUMENTED,
    }


def test_an_earlier_start_goes_once_nothing_of_it_is_left() -> None:
    old = [{**item, "engine_id": "one"} for item in steps("d0", [5])]
    new = [{**item, "engine_id": "two"} for item in steps("d0", [5], begin_ms=100_000)]
    assert [row.name for row in engine_rows(picture([*old, *new], 101))] == ["d0"]
    assert [row.name for row in engine_rows(picture([*old, *new], 30))] == ["d0", "d0"]


def test_the_router_is_no_engine_and_names_are_in_natural_order() -> None:
    parts = [*steps("d10", [5]), *steps("d9", [5]), started("router", dispatch="early"), *push_early()]
    assert [row.name for row in engine_rows(picture(parts, 1))] == ["d0", "d9", "d10", "p0"]
