"""How much there is to scrape of a large fleet: counted, on events that go all the way."""

from __future__ import annotations

import pytest

from kvscope.metrics.catalogue import METRIC, METRICS, ROOM, most_series
from kvscope.metrics.labels import ENGINE, GROUP, PAIR
from kvscope.probe.vocabulary import REASONS

from ..core.scene import moment
from ..live.fleet import Items, request
from ..live.picture import load, started, steps
from .reader import OPENMETRICS, Reader

PAIRS = 100
MOST_SERIES, MOST_BYTES = 50_000, 8_000_000
PROMPTS = (100, 1000, 4000, 50_000)


def engine(name: str, number: int) -> Items:
    """What it tells of itself: one of two models on one of two connectors, steps, load, a first contact."""
    facts = {"model": f"model-{number % 2}", "connector": ("NixlConnector", "NixlPushConnector")[number // 2 % 2]}
    contact = {"engine": name, "peer_engine": "elsewhere"}
    return [
        started(name, dp_rank=0, kv_blocks=4096, pod=f"{name}-7d9c5b8f4-x2kqz", namespace="serving", **facts),
        *steps(name, [20, 40, 700]),
        load(name, 900, waiting=3, running=4, held=1, free_blocks=100),
        *(moment(contact, f"handshake_{end}", ms) for end, ms in (("begun", 1), ("ended", 9))),
    ]


def served(number: int, prefill: str, decode: str) -> Items:
    """A request between them that tells all it can; one in five fails."""
    items = request(("early", "sequential", "pull")[number % 3], number, number)
    for item in items:
        item["engine"] = prefill if item["leg"] == "prefill" else decode
        item["host"] = "here"
        if "peer_engine" in item:
            item["peer_engine"] = prefill
        if item["moment"] == "queued":
            item["tokens"] = PROMPTS[number % len(PROMPTS)]
        if item["moment"] in ("computed", "reserved"):
            item["blocks"] = 8
        if item["moment"] == "done_seen":
            item["bytes"], item["descriptors"] = 1_000_000, 16
    if number % 5 == 0:
        leg = next(item for item in items if item["leg"] == "decode")
        mine = {key: leg[key] for key in ("engine", "leg", "request", "host")}
        items.append(moment(mine, "failed", number + 300, reason=REASONS[number % (len(REASONS) - 11) + 11]))
    return items


def fleet(engines: int) -> Reader:
    """A ledger that has seen so many engines on each side, and each decode engine behind several prefill engines."""
    sides = {side: [f"{side}-{number:03d}.serving.local:5600" for number in range(engines)] for side in "pd"}
    items = [item for names in sides.values() for n, name in enumerate(names) for item in engine(name, n)]
    for number in range(4 * engines):
        prefill, decode = sides["p"][number % engines], sides["d"][(number + number // engines * 8) % engines]
        items += served(number, prefill, decode)
    reader = Reader()
    reader.items(items, 2)
    for now in (5, 10, 80):
        reader.quiet(now)
    return reader


@pytest.fixture(scope="module")
def large() -> Reader:
    """200 engines."""
    return fleet(PAIRS)


def test_two_hundred_engines_stay_within_the_budget(large: Reader) -> None:
    series = large.scrape()
    assert large.total("kvscope_requests_total") == 4 * PAIRS
    assert len([each for each in series if each.startswith("kvscope_engine_info")]) == 2 * PAIRS
    assert 10_000 < len(series) < MOST_SERIES
    for accept in ("", OPENMETRICS):
        assert len(large.exporter.page(accept).body) < MOST_BYTES


def test_no_metric_tells_more_series_than_the_catalogue_says(large: Reader) -> None:
    series = large.scrape()
    sets = {ENGINE: 2 * PAIRS + 1, GROUP: GROUP.most + 1, PAIR: PAIR.most + 1}
    suffixes = ("", "_bucket", "_sum", "_count")
    for metric in METRICS:
        told = sum(each.partition("{")[0] in {f"{metric.name}{suffix}" for suffix in suffixes} for each in series)
        assert told <= metric.series * sets.get(metric.scope, 1), metric.name


def test_models_are_told_by_name_as_long_as_there_is_room(large: Reader) -> None:
    assert large.total("kvscope_ttft_seconds_count", model_name="other") == 0
    assert most_series(200, 3) <= ROOM < most_series(200, 4)
    named = {"m0", "m1", "m2", "m3", "m4", "m5", "m6", "other"}
    reader = Reader()
    for number in range(7):
        name = f"d{number}"
        reader.items([started(name, model=f"m{number}", connector="c", dp_rank=0), *steps(name, [20])], number)
    told = {model for model in named if reader.total("kvscope_step_seconds_count", model_name=model)}
    assert told == {"m0", "m1", "m2", "m3", "m4", "other"}
    assert reader.total("kvscope_step_seconds_count") == 7


def test_engines_beyond_the_bound_are_counted_together() -> None:
    reader = fleet(PAIRS + 20)
    named = {each for each in reader.scrape() if each.startswith("kvscope_engine_recording")}
    assert len(named) == ENGINE.most
    legs = METRIC["kvscope_engine_legs_total"]
    assert reader.total(legs.name) == 2 * 4 * (PAIRS + 20)
    assert reader.total(legs.name, engine_name="other") > 0
    assert reader.total("kvscope_requests_total") == 4 * (PAIRS + 20)
    assert len(reader.scrape()) < MOST_SERIES


def test_steps_of_engines_beyond_the_bound_are_of_the_legs_that_those_serve() -> None:
    reader, most = Reader(), ENGINE.most + 7
    all_at_once = []
    for number in range(most):
        role = "kv_producer" if number % 3 else "kv_consumer"
        all_at_once += [started(f"e{number}", model="m", connector="c", role=role), *steps(f"e{number}", [20])]
    reader.items(all_at_once, 1)
    assert reader.total("kvscope_step_seconds_count", leg="decode") == len(range(0, most, 3))
    assert reader.total("kvscope_step_seconds_count", leg="prefill") == most - len(range(0, most, 3))
