"""Traces of a real pair arrive through a real collector, beside those that vLLM sends there itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvscope.cli import main
from kvscope.core.critical_path import split
from kvscope.lab import dispatch
from kvscope.lab.load import LoadOptions
from kvscope.lab.pair import PairOptions
from kvscope.lab.recording import recording
from kvscope.sources.opening import open_all
from tests.integration.export.checking import check_tree, traces
from tests.integration.export.collector import Arrived, Collector
from tests.integration.export.rotel import rotel
from tests.lab.rig import Leg, Rig, asked, prompt

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

LOAD = LoadOptions(requests=20, rate=3.0, input_tokens=((300, 1.0), (700, 1.0)), output_tokens=6)
CALLS = 4
CLOCK_NS = 1_000_000
"""vLLM's spans and ours begin at the same arrival, each by a reading of the clock of its own."""


@dataclass(frozen=True)
class Scene:
    """A pair that sends its own traces where ours go."""

    rig: Rig
    collector: Collector
    url: str


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("otlp")
    with Collector() as collector, rotel(collector.url, folder) as url:
        env = {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf", "OTEL_BSP_SCHEDULE_DELAY": "200"}
        tracing = ("--otlp-traces-endpoint", f"{url}/v1/traces")
        rig = Rig(PairOptions(connector="push", vllm_args=tracing, env=env), folder)
        with rig:
            yield Scene(rig, collector, url)


def test_a_real_load_arrives_whole(scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "load.kvs"
    with recording(scene.rig.run_dir, path) as tap:
        records = scene.rig.load(LOAD, scene.rig.router("early").url)
    assert not tap.faults
    assert all(record.ok for record in records)
    requests = {request.request: request for request in split(open_all([path], None).events)}
    assert main(["export", str(path), "--otlp", scene.url]) == 0
    spans = int(capsys.readouterr().err.split(" spans")[0].replace(",", ""))
    found = traces(ours(scene, spans))
    assert len(found) == len(requests) >= LOAD.requests
    for trace in found.values():
        check_tree(trace, requests)


def test_requests_lie_in_their_callers_traces_beside_vllms_own_spans(scene: Scene, tmp_path: Path) -> None:
    path = tmp_path / "calls.kvs"
    before = len(scene.collector.spans)
    callers = [(f"{number:032x}", f"{number:016x}") for number in range(0x1000, 0x1000 + CALLS)]
    with recording(scene.rig.run_dir, path):
        for number, (trace, span) in enumerate(callers):
            call(scene.rig, f"called-{number}", number, f"00-{trace}-{span}-01")
    assert main(["export", str(path), "--otlp", scene.url]) == 0
    events = open_all([path], None).events
    requests = {request.request: request for request in split(events) if "called-" in request.request}
    assert len(requests) == CALLS
    told = {trace for trace, _ in callers}
    arrived = until_there(scene, before, told)
    for trace, span in callers:
        mine = [each for each in arrived if each.span.trace_id.hex() == trace]
        (root,) = (each for each in mine if "kvscope.ttft_ns" in each.attributes)
        theirs = [each for each in mine if each.span.name == "llm_request"]
        assert len(theirs) == 2, "vLLM tells of each leg"
        assert {each.span.parent_span_id.hex() for each in (root, *theirs)} == {span}
        beside(mine, theirs)


def beside(mine: list[Arrived], theirs: list[Arrived]) -> None:
    """vLLM's spans begin with our legs, under the same id."""
    legs = {str(each.attributes["kvscope.leg"]): each for each in mine if "kvscope.leg" in each.attributes}
    begins = sorted(leg.span.start_time_unix_nano for leg in legs.values())
    told = sorted(each.span.start_time_unix_nano for each in theirs)
    apart = [our - their for our, their in zip(begins, told, strict=True)]
    print(f"our legs begin {', '.join(f'{ns / 1e3:.1f}' for ns in apart)} us after vLLM's spans")
    assert max(map(abs, apart)) < CLOCK_NS
    ids = {str(each.attributes["gen_ai.request.id"]) for each in theirs}
    assert {str(leg.attributes["kvscope.request"]).rsplit("-", 1)[0] for leg in legs.values()} == ids


def call(rig: Rig, name: str, number: int, traceparent: str) -> None:
    """Both legs, as a caller sends them that traces: under its own span."""
    words = prompt(200 + number, 11 + number)
    status, answer = Leg(rig["p0"], name, dispatch.prefill_body(asked(words)), traceparent=traceparent).answer()
    assert status == 200, answer
    params = dispatch.sequential_params(rig.options.connector, dict(answer["kv_transfer_params"]))
    status, answer = Leg(rig["d0"], name, dispatch.decode_body(asked(words), params), traceparent=traceparent).answer()
    assert status == 200, answer


def ours(scene: Scene, spans: int) -> list[Arrived]:
    """The spans that kvscope sent, once all are there."""
    scene.collector.until(lambda arrived: sum(map(is_ours, arrived)) >= spans)
    return [each for each in scene.collector.spans if is_ours(each)]


def is_ours(arrived: Arrived) -> bool:
    return "kvscope.mode" in arrived.resource


def until_there(scene: Scene, before: int, told: set[str]) -> list[Arrived]:
    """What arrived since, once each trace has its root of ours and both of vLLM's."""

    def whole(arrived: list[Arrived]) -> bool:
        mine = [each for each in arrived[before:] if each.span.trace_id.hex() in told]
        roots = sum("kvscope.ttft_ns" in each.attributes for each in mine)
        return roots == len(told) and sum(each.span.name == "llm_request" for each in mine) == 2 * len(told)

    scene.collector.until(whole)
    return scene.collector.spans[before:]
