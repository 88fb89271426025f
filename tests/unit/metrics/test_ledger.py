"""What is counted: each request once, when it is over, and as the splits of the same events say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kvscope.analysis.holding import PINNED, RESERVED, gather_held
from kvscope.analysis.objectives import Objectives
from kvscope.analysis.price import gather_price
from kvscope.core.critical_path import split
from kvscope.core.stream import SECOND
from kvscope.metrics.labels import HIDEABLE
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGES

from ..core.scene import MS, events_of, moment
from ..core.simulator import Cause, fleets
from ..core.simulator import items as simulated
from ..live.fleet import Items, events, request
from ..live.picture import load, started, steps
from .reader import OPENMETRICS, Reader

GROUP = {"model_name": "m", "connector": "Nixl"}


def engines(*names: str, **facts: object) -> Items:
    told = {"model": "m", "connector": "Nixl", "dp_rank": 0, "kv_blocks": 64, **facts}
    return [started(name, **told) for name in names]


def some_requests() -> tuple[Items, Splits]:
    """Thirty of three scenes, and what a report makes of them."""
    parts = [request(scene, number, 50 * number) for number, scene in enumerate(["early", "sequential", "pull"] * 10)]
    items = [*engines("p0", "d0"), *(item for part in parts for item in part)]
    return items, split(events([items]))


def counted(items: Items, objectives: Objectives | None = None, pieces: int = 7) -> Reader:
    """The items in several batches, and then time enough for all of them to be over."""
    reader = Reader(objectives)
    ordered = sorted(items, key=lambda item: int(item["t"]))
    for at in range(0, len(ordered), max(1, len(ordered) // pieces)):
        part = ordered[at : at + max(1, len(ordered) // pieces)]
        reader.items([*engines("p0", "d0"), *part], max(int(item["t"]) for item in part) / SECOND)
    for now in (5, 10, 80):
        reader.quiet(now)
    return reader


def test_each_request_counts_once_and_its_time_to_the_nanosecond() -> None:
    items, splits = some_requests()
    reader = counted(items)
    assert reader.total("kvscope_requests_total") == len(splits) == 30
    assert reader.total("kvscope_requests_total", shape="push", state="complete", **GROUP) == 20
    assert reader.total("kvscope_ttft_seconds_count", **GROUP) == 30
    assert reader.total("kvscope_ttft_seconds_sum") == pytest.approx(splits.ttft.sum() / 1e9, abs=1e-12)


def test_stages_and_classes_are_those_of_the_report_and_add_up() -> None:
    items, splits = some_requests()
    reader = counted(items)
    for index, stage in enumerate(STAGES):
        for exposure, ns in (("exposed", splits.exposed), ("hidden", splits.hidden)):
            labels = {"stage": stage.name, "exposure": exposure}
            assert reader.total("kvscope_stage_seconds_sum", **labels) == pytest.approx(ns[:, index].sum() / 1e9)
            assert reader.total("kvscope_stage_seconds_count", **labels) == (ns[:, index] > 0).sum()
    whole = reader.total("kvscope_ttft_seconds_sum")
    for name in ("kvscope_stage_seconds_sum", "kvscope_class_seconds_sum"):
        assert reader.total(name, exposure="exposed") == pytest.approx(whole, abs=1e-12)


@given(fleets())
def test_only_stages_that_have_a_series_for_it_are_ever_hidden(causes: list[Cause]) -> None:
    splits = split(events_of(item for cause in causes for item in simulated(cause)))
    hidden = {STAGES[index].name for index in np.flatnonzero(splits.hidden[splits.timed].any(axis=0))}
    assert hidden <= {STAGES[index].name for index in HIDEABLE}


def test_a_value_is_in_the_first_bucket_that_holds_it() -> None:
    reader = counted([*engines("p0", "d0"), *request("early", 0, 0)])  # 136 ms
    assert reader.total("kvscope_ttft_seconds_bucket", le="0.1") == 0
    assert reader.total("kvscope_ttft_seconds_bucket", le="0.25") == 1
    assert reader.total("kvscope_ttft_seconds_bucket", le="+Inf") == 1


def test_an_exemplar_names_the_request() -> None:
    reader = counted([*engines("p0", "d0"), *request("early", 7, 0)])
    page = reader.exporter.page(OPENMETRICS).body.decode()
    (line,) = (line for line in page.splitlines() if line.startswith("kvscope_ttft") and "# {" in line)
    assert '# {request="cmpl-r0007-0-bbbbbbbb"} 0.136 1700000' in line
    assert "# {" not in reader.exporter.page("text/plain").body.decode()


def test_a_long_or_strange_id_makes_no_page_that_cannot_be_read() -> None:
    items = request("early", 0, 0)
    strange = 'x"\\\n\x1b[31m"' + "y" * 400
    for item in items:
        for name in ("request", "peer_request"):
            if item.get(name, "").endswith("bbbbbbbb"):
                item[name] = strange
    reader = counted([*engines("p0", "d0"), *items])
    page = reader.exporter.page(OPENMETRICS).body.decode()
    families = text_string_to_metric_families(page)  # type: ignore[no-untyped-call]
    found = [sample.exemplar for each in families for sample in each.samples]
    (named, *_) = (exemplar.labels["request"] for exemplar in found if exemplar)
    assert named.startswith("x????[31m?yy")
    assert len("request") + len(named) <= 128


@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text; version=x.y",
        "text/plain; version=1.x",
        "text/plain;version=1.0.0-\xff",
        ";;;,,,=",
        "application/openmetrics-text;version=;escaping=none;q=much",
    ],
)
def test_whatever_a_scraper_accepts_it_gets_a_page(accept: str) -> None:
    page = counted([*engines("p0", "d0"), *request("early", 7, 0)]).exporter.page(accept)
    assert b"kvscope_ttft_seconds_count" in page.body
    assert "x.y" not in page.media_type


@pytest.mark.parametrize("blocks", [10**400, -1, "many", None])
def test_a_number_of_blocks_that_is_none_is_not_told_and_spoils_no_page(blocks: object) -> None:
    reader = Reader()
    reader.items([*engines("p0"), *engines("d0", kv_blocks=blocks), *request("early", 7, 0)], 1)
    assert reader.total("kvscope_engine_kv_blocks", engine_name="p0") == 64
    assert not any(name.startswith("kvscope_engine_kv_blocks{") and "=d0" in name for name in reader.scrape())


def test_blocks_held_are_those_of_the_report() -> None:
    items, _ = some_requests()
    for item in items:
        if item["moment"] in ("reserved", "computed"):
            item["blocks"] = 8
    splits = split(events([items]))
    reader = counted(items)
    for side, name in ((RESERVED, "reserved_idle"), (PINNED, "pinned")):
        held = gather_held(splits, side, {})
        assert held.block_s
        assert reader.total(f"kvscope_engine_{name}_block_seconds_total") == pytest.approx(held.block_s)


def test_transfers_count_at_either_end() -> None:
    items, _ = some_requests()
    for item in items:
        if item["moment"] == "done_seen":
            item["bytes"], item["descriptors"] = 1000, 4
    reader = counted(items)
    for engine, leg in (("p0", "prefill"), ("d0", "decode")):
        assert reader.total("kvscope_engine_transfers_total", engine_name=engine, leg=leg) == 30
        assert reader.total("kvscope_engine_transfer_bytes_total", engine_name=engine, leg=leg) == 30_000
        assert reader.total("kvscope_engine_transfer_descriptors_total", engine_name=engine, leg=leg) == 120
    assert reader.total("kvscope_engine_transfers_total") == 60
    assert reader.total("kvscope_pair_transfer_bytes_total", engine_name="p0", peer="d0") == 30_000


def test_the_time_of_a_stage_is_laid_at_the_engine_where_it_ends() -> None:
    reader = counted([*engines("p0", "d0"), *request("early", 0, 0)])
    told = {
        (engine, stage): round(
            1e3 * reader.total("kvscope_engine_stage_seconds_total", engine_name=engine, stage=stage)
        )
        for engine in ("p0", "d0")
        for stage in ("frontend", "intake", "prefill_run", "staging", "registration_flight", "wire", "notice")
    }
    at_prefill, at_decode = {"frontend": 1, "intake": 1}, {"frontend": 1, "notice": 1}
    at_prefill |= {"prefill_run": 100, "staging": 2, "registration_flight": 99, "wire": 8}
    expected = {("p0", stage): ms for stage, ms in at_prefill.items()} | {("d0", s): ms for s, ms in at_decode.items()}
    assert {where: ms for where, ms in told.items() if ms} == expected


def test_failures_count_by_reason_and_an_engine_s_own_words_are_other() -> None:
    leg = {"engine": "d0", "leg": "decode"}
    items: Items = []
    for number, reason in enumerate(("transfer_failed", "push_handshake_failed", "lease_expired", "the cat sat on it")):
        mine = {**leg, "request": f"cmpl-f{number}-0-bbbbbbbb"}
        items += [moment(mine, name, ms) for name, ms in (("arrived", 0), ("taken", 1), ("queued", 2))]
        items += [moment(mine, "failed", 3, reason=reason), moment(mine, "finished", 4, reason="error", tokens=0)]
    reader = counted(items)
    for reason in ("transfer_failed", "push_handshake_failed", "lease_expired", "other"):
        assert reader.total("kvscope_request_failures_total", leg="decode", reason=reason) == 1, reason
    kinds = {kind: reader.total("kvscope_engine_failures_total", engine_name="d0", kind=kind)
             for kind in ("handshake", "expired", "other")}  # fmt: skip
    assert kinds == {"handshake": 1, "expired": 1, "other": 2}
    assert " sat " not in reader.exporter.page("").body.decode()


def test_pushes_count_by_whether_the_router_could_have_had_them_overlap() -> None:
    items, _ = some_requests()
    reader = counted(items)
    assert reader.total("kvscope_pushes_total", dispatch="early", **GROUP) == 10
    assert reader.total("kvscope_pushes_total", dispatch="sequential", **GROUP) == 10


def test_what_keeps_requests_from_being_admitted_counts_by_reason() -> None:
    leg = {"engine": "d0", "leg": "decode", "request": "cmpl-h-0-bbbbbbbb"}
    reasons = ("blocks", "slot", "blocks", "budget", "the cat sat on it")
    reader = counted(
        [*engines("p0", "d0"), *(moment(leg, "held", ms, reason=reason) for ms, reason in enumerate(reasons))]
    )
    told = {reason: reader.total("kvscope_engine_holds_total", engine_name="d0", reason=reason)
            for reason in ("blocks", "slot", "other")}  # fmt: skip
    assert told == {"blocks": 2, "slot": 1, "other": 2}
    assert reader.total("kvscope_engine_holds_total") == 5


def test_what_is_missing_is_named_as_in_the_report() -> None:
    items = [item for item in request("early", 0, 0) if item["moment"] not in ("staged", "notified")]
    reader = counted([*engines("p0", "d0"), *items])
    assert reader.total("kvscope_requests_total", state="incomplete") == 1
    assert reader.total("kvscope_requests_missing_total", moment="staged") == 1
    assert reader.total("kvscope_requests_missing_total") == 2
    assert reader.total("kvscope_ttft_seconds_count") == 0


def test_objectives_are_judged_where_there_are_some() -> None:
    items, splits = some_requests()
    assert "slow_" not in counted(items).exporter.page("").body.decode()
    reader = counted(items, Objectives(ttft_ns=140 * MS))
    slow = splits.select(splits.ttft > 140 * MS)
    assert reader.total("kvscope_requests_judged_total", objective="ttft", outcome="missed") == len(slow) == 10
    assert reader.total("kvscope_requests_judged_total", objective="ttft", outcome="met") == 20
    assert reader.total("kvscope_requests_judged_total", objective="tpot") == 0
    assert reader.total("kvscope_slow_requests_total") == 10
    assert reader.total("kvscope_slow_class_seconds_total") == pytest.approx(slow.ttft.sum() / 1e9)


def test_another_engine_that_waits_less_is_regretted_as_in_the_report() -> None:
    items = [*engines("p0", "d0", "d1")]
    for number in range(8):
        # Two come at a time: an engine is one to choose once a request of it is over.
        items += request("early", number, 200 * (number - number % 2), decode=f"d{number % 2}")
        items += [load(f"d{n}", 200 * number + 1, 3 * (number % 3) * n, 1, 0, 9) for n in range(2)]
    found = gather_price(events([items]), split(events([items]))).regret
    assert found.regretted > 0
    reader = Reader()
    for at in range(0, 2000, 200):
        part = [item for item in items if at <= int(item["t"]) / MS < at + 200]
        reader.items([*engines("p0", "d0", "d1"), *part], (at + 200) / 1000)
    for now in (5, 80):
        reader.quiet(now)
    assert reader.total("kvscope_regret_judged_total") == found.judged
    assert reader.total("kvscope_regret_regretted_total") == found.regretted
    assert reader.total("kvscope_regret_waiting_total") >= found.regretted


def test_a_request_is_in_flight_until_its_first_token_and_then_none_is() -> None:
    reader = Reader()
    begun = [item for item in request("early", 0, 0) if item["t"] <= 6 * MS and item["engine"] == "d0"]
    reader.items([*engines("p0", "d0"), *begun], 3)
    last = {"leg": "decode", "moment": "registration_sent"}
    assert reader.total("kvscope_requests_in_flight", **last) == 1
    assert reader.total("kvscope_requests_in_flight") == 1
    assert reader.total("kvscope_requests_in_flight_oldest_seconds") == pytest.approx(2.998)
    assert reader.total("kvscope_engine_writer_backlog_requests", engine_name="d0", kind="registrations") == 0
    reader.items([*engines("p0", "d0"), *request("early", 0, 0)], 6)
    assert (
        reader.scrape()["kvscope_requests_in_flight{connector=Nixl,leg=decode,model_name=m,moment=registration_sent}"]
        == 0
    )
    assert reader.total("kvscope_requests_in_flight_oldest_seconds") == 0


def test_engines_tell_of_steps_load_and_first_contacts() -> None:
    reader = Reader()
    contact = {"engine": "d0", "peer_engine": "p0"}
    reader.items(
        [
            *engines("p0", "d0"),
            *steps("d0", [20, 40], share=0.25),
            load("d0", 1, waiting=9, running=1, held=1, free_blocks=3),
            load("d0", 2, waiting=2, running=4, held=1, free_blocks=11),
            moment(contact, "handshake_begun", 10),
            moment(contact, "handshake_ended", 30),
        ],
        1,
    )
    mine = {"engine_name": "d0", "model_name": "m", "engine": "0"}
    expected = {
        "kvscope_engine_steps_total": 2,
        "kvscope_engine_step_seconds_total": 0.060,
        "kvscope_engine_step_connector_seconds_total": 0.015,
        "kvscope_engine_handshakes_begun_total": 1,
        "kvscope_engine_handshakes_ended_total": 1,
        "kvscope_engine_handshake_seconds_total": 0.020,
        "kvscope_engine_kv_blocks": 64,
        "kvscope_engine_kv_blocks_free": 11,
        "kvscope_engine_recording": 1,
        "kvscope_engine_starts_total": 0,  # JSON lines without an engine id tell of none
        "kvscope_engine_last_event_timestamp_seconds": 1_700_000_000.06,
    }
    assert {name: reader.total(name, **mine) for name in expected} == pytest.approx(expected)
    assert [reader.total("kvscope_engine_requests", state=state) for state in ("waiting", "running", "held")] == [
        2,
        4,
        1,
    ]
    assert reader.total("kvscope_step_seconds_count", leg="unknown") == 2
