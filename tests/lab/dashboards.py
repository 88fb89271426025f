"""Every query of every dashboard, and all rules, on a real Prometheus that scrapes real engines under load."""

from __future__ import annotations

import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kvscope.alerts.recordings import RECORDINGS
from kvscope.alerts.rendering import RUNBOOKS, rules_file
from kvscope.alerts.table import ALERTS
from kvscope.dashboards.boards import BOARDS
from kvscope.dashboards.commitment import ONE_DECODE
from kvscope.dashboards.handoff import UNHIDDEN
from kvscope.dashboards.trust import HAPPENED
from kvscope.dashboards.ttft import EITHER
from kvscope.lab.front import RouterProcess
from kvscope.lab.load import LoadOptions
from kvscope.metrics.buckets import FINE
from kvscope.metrics.labels import CLASSES, STAGE_CLASSES
from tests.integration.live.conftest import until
from tests.integration.metrics.prometheus import Prometheus
from tests.lab.boards import Answer, asked, marks, replaced, variables
from tests.lab.observation import histogram
from tests.lab.rig import Rig
from tests.lab.scraping import COUNTED, load_counted, reported, scraping
from tests.lab.screens import printed

Requests = list[dict[str, Any]]
MIX = ((300, 1.0), (700, 1.0))
LOAD = LoadOptions(requests=60, rate=1.5, input_tokens=MIX, output_tokens=8, warm_up=0, seed=1)
TRIED = replace(LOAD, requests=12, warm_up=2, seed=2)
"""What these take at the median is the objective for the others: some will miss it."""
BEFORE = replace(LOAD, requests=16, seed=3)
"""So that each series that the load adds to is there when it begins: a rate does not see the first value of one."""
ENOUGH = 20
"""Requests of the load that are over when the dashboards are looked at."""
CONNECTORS = {"push": "NixlPushConnector", "pull": "NixlConnector"}
ENGINES = ("p0", "d0")
THEIRS = "vllm:time_to_first_token_seconds"

HEALTHY = {
    EITHER,
    ONE_DECODE,
    HAPPENED,
    "no engine may have met another in this time",
    "all may be admitted at once",
    "all of it may be hidden",
    "without TLS there is none",
}
"""Why a query may give nothing on a pair that nothing ails: the panels' own reasons. Others of theirs, such as that no
objective is set or that vLLM is not scraped, do not hold here."""
PULLED = HEALTHY | {
    UNHIDDEN,
    "pull has no writer",
    "only push registers",
    "nothing is pushed with pull",
    "not every connector has this stage, nor is it always on the path",
}


@dataclass(frozen=True)
class Scene:
    """A pair that was under load, and what was asked meanwhile."""

    rig: Rig
    prometheus: Prometheus
    connector: str
    slo_ms: int
    served: int
    """requests that vLLM had counted before any of these"""
    requests: Requests = field(default_factory=list)
    """those of the load, as reported"""
    since: float = 0.0
    """of the last scrape before the load, s since 1970: all that came before was counted by then"""
    before: Mapping[str, float] = field(default_factory=dict)
    """series -> value then"""
    meanwhile: tuple[Answer, ...] = ()
    """in the middle of the load"""
    after: tuple[Answer, ...] = ()
    """once it is over, over the load and nothing else"""

    def whole(self) -> tuple[Answer, ...]:
        """The dashboards from the last scrape before the load on."""
        at = time.time()
        span = f"{round((at - self.since) * 1e3) + 1}ms"
        return tuple(asked(self.prometheus, {}, span, span, at))

    def known(self, metric: str, label: str) -> set[str]:
        """Values of a label of which every series was there before the load: rates see all that it added to these."""
        after = {series: labels[label] for labels, _ in self.prometheus.vector(metric)
                 for series in (json.dumps(labels, sort_keys=True),)}  # fmt: skip
        return set(after.values()) - {value for series, value in after.items() if series not in self.before}


@contextmanager
def under_load(rig: Rig, router: RouterProcess) -> Iterator[Scene]:
    """A pair with objectives that some requests miss, after a load."""
    earlier = {each["request"] for each in reported(rig)}
    _, served = histogram(rig["d0"].url, THEIRS)
    rig.load(TRIED, router.url)
    tried = [each["ttft_ns"] for each in reported(rig) if each["request"] not in earlier]
    slo_ms = round(statistics.median(tried) / 1e6)
    rules = rules_file(RUNBOOKS).replace("interval: 1m", "interval: 1s")
    with scraping(rig, "--slo", f"ttft={slo_ms}ms,tpot=60ms", rules=(rules,), pods=True) as prometheus:
        yield _loaded(Scene(rig, prometheus, rig.options.connector, slo_ms, served), router)


def _loaded(scene: Scene, router: RouterProcess) -> Scene:
    """The same once the load is over, with what was asked in the middle of it."""
    rig, prometheus = scene.rig, scene.prometheus
    counted = load_counted(prometheus, rig, router, BEFORE)
    known = {each["request"] for each in reported(rig)}
    since, before = (
        prometheus.number("timestamp(kvscope_rings_readable)"),
        prometheus.values('{__name__=~"kvscope_.+"}'),
    )
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(load_counted, prometheus, rig, router, LOAD)
        until(lambda: prometheus.number(COUNTED) >= counted + ENOUGH, "nothing is counted")
        meanwhile = tuple(asked(prometheus, {}, "60s", "5m"))
        assert not sent.done(), "the load was over before all was asked"
        assert sent.result() == LOAD.requests
    requests = [each for each in reported(rig) if each["request"] not in known]
    assert len(requests) == LOAD.requests
    seen = replace(scene, requests=requests, since=since, before=before, meanwhile=meanwhile)
    return replace(seen, after=seen.whole())


_UNTOLD = {"gpu", "node", "pod", "namespace", "tp", "pp", "dp", "mode", "release", "block_size", "engine", "patches"}
"""Columns of tables that an engine may leave empty."""


def _name(template: str, labels: Mapping[str, str]) -> str:
    for label, value in labels.items():
        template = template.replace(f"{{{{{label}}}}}", value)
    assert "{{" not in template, f"{template}: {labels}"
    return template


def _figure(answers: tuple[Answer, ...], board: str, title: str, name: str) -> list[tuple[dict[str, str], float]]:
    (found,) = (each for each in answers if (each.board, each.query.name) == (board, name)
                and each.panel.title.startswith(title))  # fmt: skip
    return found.now


def _mean(requests: Requests, part: Callable[[dict[str, Any]], float]) -> float:
    return sum(map(part, requests)) / len(requests) / 1e9


def _of_class(cls: str, exposure: str = "exposed") -> Callable[[dict[str, Any]], float]:
    stages = [stage for stage, of in STAGE_CLASSES if of == cls]
    return lambda request: float(sum(request[exposure].get(stage, 0) for stage in stages))


def near(expected: Any) -> Any:
    """Rates of one target, all over the same span, are extrapolated by the same factor: it leaves their ratio alone."""
    return pytest.approx(expected, rel=1e-4, abs=1e-7)


class Dashboards:
    """What holds of a pair under load; a module with a `scene` of its own says which pair that is."""

    @pytest.fixture(autouse=True)
    def scraped(self, scene: Scene) -> None:
        """On a busy machine some scrapes fail, and nothing of their target is there then until the next."""
        until(lambda: scene.prometheus.number("min(up)") == 1, "a target is not scraped")

    def test_variables_have_the_values_of_the_pair(self, scene: Scene) -> None:
        for board in BOARDS:
            found = variables(scene.prometheus, board, {}).values
            assert found["engine"] == ("d0", "p0")
            assert found["connector"] == (CONNECTORS[scene.connector],)
            assert len(found["model"]) == 1

    def test_every_query_gives_data_under_load_or_its_panel_says_why_not(self, scene: Scene) -> None:
        allowed = PULLED if scene.connector == "pull" else HEALTHY
        empty = {str(answer): answer.query.empty for answer in scene.meanwhile if answer.empty}
        listed = "".join(f"\n  {name}: {why}" for name, why in empty.items())
        print(f"\n{scene.connector}: {len(scene.meanwhile)} queries under load; without data {len(empty)}:{listed}")
        assert {name: why for name, why in empty.items() if why not in allowed} == {}
        either = Counter(
            answer.panel.title for answer in scene.meanwhile if answer.query.empty == EITHER and not answer.empty
        )
        assert set(either.values()) == {1}
        assert len(either) == 2, "each such panel says one of its sentences"
        assert len(scene.meanwhile) == sum(len(panel.queries) for board in BOARDS for panel in board.panels)
        for answer in scene.meanwhile:
            assert all(value == value for _, value in answer.now), f"{answer}: not a number"

    def test_every_series_is_called_something_else(self, scene: Scene) -> None:
        """By the words that the panel has for it: else two lines could not be told apart."""
        for answer in scene.meanwhile:
            if not answer.panel.names:
                named = Counter(_name(answer.query.name, labels) for labels, _ in answer.now)
                assert not named or max(named.values()) == 1, f"{answer}: {named}"
            for labels, _ in answer.now:
                assert set(answer.panel.names) <= labels.keys() | _UNTOLD, f"{answer}: {labels}"

    def test_every_query_can_be_asked_of_some_of_what_there_is(self, scene: Scene) -> None:
        for name in ENGINES:
            answers = asked(scene.prometheus, {"engine": (name,)}, "60s", "5m", time.time())
            series = [labels for answer in answers for labels, _ in answer.now]
            told = {labels["engine_name"] for labels in series if "engine_name" in labels and "peer" not in labels}
            assert told == {name}
        one = {"prompt": ("0-511",), "stage": ("wire",), "connector": (CONNECTORS[scene.connector],)}
        for board in BOARDS:
            chosen = {
                name: values for name, values in one.items() if name in variables(scene.prometheus, board, {}).values
            }
            put = variables(scene.prometheus, board, chosen).put
            times = {"__rate_interval": "60s", "__range": "5m"}
            for query in (query for panel in board.panels for query in panel.queries):
                scene.prometheus.vector(replaced(query.expr, put | times))
            for expr in marks(board):
                scene.prometheus.vector(replaced(expr, put))

    def test_counts_of_the_load_are_exact_by_raw_differences(self, scene: Scene) -> None:
        assert scene.prometheus.number("sum(kvscope_engine_events_lost_total)") == 0
        for selector, expected in (
            ("kvscope_requests_total", len(scene.requests)),
            ('kvscope_requests_total{state="complete"}', len(scene.requests)),
            ("kvscope_ttft_seconds_count", len(scene.requests)),
            ("kvscope_slow_requests_total", sum(request["ttft_ns"] > scene.slo_ms * 1e6 for request in scene.requests)),
            ("kvscope_pair_transfer_bytes_total", sum(request["transfer_bytes"] for request in scene.requests)),
            ('kvscope_engine_legs_total{leg="prefill"}', len(scene.requests)),
            ('kvscope_engine_legs_total{leg="decode"}', len(scene.requests)),
        ):
            after = scene.prometheus.values(selector)
            assert sum(value - scene.before.get(series, 0.0) for series, value in after.items()) == expected, selector
        whole = sum(request["ttft_ns"] for request in scene.requests) / 1e9
        grown = sum(
            value - scene.before[name] for name, value in scene.prometheus.values("kvscope_ttft_seconds_sum").items()
        )
        assert grown == pytest.approx(whole, abs=1e-9)
        growing = scene.prometheus.samples('{__name__=~"kvscope_.+_(total|count|bucket)"}')
        assert len(growing) > 500
        assert all(values == sorted(values) for values in growing.values())

    def test_vllm_counts_as_many(self, scene: Scene) -> None:
        """It counted what was sent before `kvscope serve` began, too."""
        sent = LOAD.requests + BEFORE.requests + BEFORE.warm_up + TRIED.requests + TRIED.warm_up
        assert scene.prometheus.number(f'sum({THEIRS}_count{{engine_name="d0"}})') == scene.served + sent
        counted = scene.prometheus.vector("sum by (shape, state) (kvscope_requests_total) > 0")
        assert [labels for labels, _ in counted] == [{"shape": scene.connector, "state": "complete"}]
        lost = scene.prometheus.number("sum(kvscope_engine_events_lost_total)")
        cpu = {labels["part"]: value for labels, value in scene.prometheus.vector("kvscope_reader_cpu_seconds_total")}
        print(f"\n{sent} requests, {lost:.0f} events lost, CPU {cpu}")

    def test_series_join_those_of_vllm_by_its_own_labels(self, scene: Scene) -> None:
        joined = scene.prometheus.vector(
            "vllm:num_requests_running * on (model_name, engine, engine_name) kvscope_engine_recording"
        )
        assert {labels["engine_name"] for labels, _ in joined} == set(ENGINES)
        assert [value for _, value in joined] == [0, 0]
        cached = scene.prometheus.vector(
            "vllm:kv_cache_usage_perc"
            " * on (model_name, engine, engine_name) group_left (role, vllm) kvscope_engine_info"
        )
        roles = {(labels["engine_name"], labels["role"]) for labels, _ in cached}
        assert roles == {("p0", "kv_producer"), ("d0", "kv_consumer")}

    @pytest.mark.parametrize(
        "gauge",
        ["requests_in_flight", "engine_reserved_idle_blocks", "engine_requests", "engine_writer_backlog_requests"],
    )
    def test_nothing_is_in_flight_or_held_once_all_is_over(self, scene: Scene, gauge: str) -> None:
        assert scene.prometheus.number(f"sum(kvscope_{gauge})") == 0
        if gauge != "engine_writer_backlog_requests" or scene.connector == "push":
            assert scene.prometheus.vector(f"kvscope_{gauge}"), "it is told"
        seen = scene.prometheus.number("max(max_over_time(kvscope_requests_in_flight[1h]))")
        assert seen > 0, "while they were under way, some were in flight"

    def test_classes_are_the_report_s(self, scene: Scene) -> None:
        answers = scene.after
        ttft = _mean(scene.requests, lambda request: request["ttft_ns"])
        known = scene.known('kvscope_class_seconds_sum{exposure="exposed"}', "class")
        assert {"coordination", "compute_run", "transfer"} <= known
        expected = {cls: _mean(scene.requests, _of_class(cls)) for cls in CLASSES if cls in known}
        for title, name in (("Mean time to first token, by class: all", "{{class}}"), ("Classes", "on the path")):
            found = {labels["class"]: value for labels, value in _figure(answers, "ttft", title, name)}
            assert {cls: found[cls] for cls in expected} == near(expected)
            assert sum(found.values()) == pytest.approx(ttft, rel=0.01 if known < set(CLASSES) else 1e-4)
        shares = {labels["class"]: value for labels, value in _figure(answers, "ttft", "Classes", "share of TTFT")}
        assert {cls: shares[cls] for cls in expected} == near(
            {cls: seconds / ttft for cls, seconds in expected.items()}
        )
        ((_, least),) = _figure(answers, "ttft", "Coordination, share", "at least")
        assert least == near(expected["coordination"] / ttft)
        slow = [request for request in scene.requests if request["ttft_ns"] > scene.slo_ms * 1e6]
        ((_, met),) = _figure(answers, "ttft", "Objectives met", "ttft")
        assert met == near(1 - len(slow) / len(scene.requests))
        told = ", ".join(f"{cls} {share:.3f}" for cls, share in shares.items())
        missed = f"{len(slow)} of {len(scene.requests)} missed {scene.slo_ms} ms"
        print(f"\n{scene.connector}: TTFT {ttft * 1e3:.0f} ms, {missed}; shares {told}")

    def test_quantiles_lie_in_the_bucket_of_the_report_s(self, scene: Scene) -> None:
        answers, ttft = scene.after, sorted(request["ttft_ns"] for request in scene.requests)
        told = []
        for percent in (50, 95, 99):
            exact = ttft[-(-percent * len(ttft) // 100) - 1]
            low, high = next((a, b) for a, b in zip((0, *FINE.ns), FINE.ns, strict=False) if a < exact <= b)
            ((_, found),) = _figure(answers, "ttft", "Time to first token", f"p{percent}")
            told.append(f"p{percent} {found * 1e3:.0f} ms, report {exact / 1e6:.0f} ms")
            assert low / 1e9 <= found <= high / 1e9
        print(f"\n{scene.connector}: {'; '.join(told)}")

    def test_stages_and_prices_are_the_report_s(self, scene: Scene) -> None:
        answers = scene.after
        for exposure, column in (("exposed", "on the path"), ("hidden", "hidden")):
            rows = {labels["stage"]: value for labels, value in _figure(answers, "handoff", "Every stage", column)}
            assert rows or exposure == "hidden"
            known = scene.known(f'kvscope_stage_seconds_sum{{exposure="{exposure}"}}', "stage") & rows.keys()
            expected = {stage: _mean(scene.requests, lambda request, at=stage, on=exposure: request[on].get(at, 0))  # type: ignore[misc]
                        for stage in known}  # fmt: skip
            assert {stage: rows[stage] for stage in known} == near(expected)
            print(f"\n{scene.connector}, {exposure}: {len(known)} of {len(rows)} stages held to the report")
        moved = sum(request["transfer_bytes"] for request in scene.requests) / len(scene.requests)
        ((_, found),) = _figure(answers, "handoff", "Bytes per transfer", "bytes")
        assert found == near(moved)

    def test_a_dot_leads_to_a_request_of_the_report(self, scene: Scene) -> None:
        ids = {request["request"] for request in reported(scene.rig)}
        dotted = [answer for answer in scene.after if answer.panel.exemplars]
        assert len(dotted) > 3
        for answer in dotted:
            found = {exemplar["labels"]["request"] for exemplar in scene.prometheus.exemplars(answer.expr)}
            assert found <= ids
            assert found or answer.query.empty, str(answer)
        exemplar = scene.prometheus.exemplars("kvscope_ttft_seconds_bucket")[-1]
        text = printed("request", exemplar["labels"]["request"], "--run-dir", str(scene.rig.run_dir), "--json")
        (request,) = json.loads(text)["requests"]
        assert request["ttft_ns"] / 1e9 == pytest.approx(float(exemplar["value"]), abs=1e-9)

    def test_rules_are_evaluated_without_an_error_and_a_healthy_pair_wakes_nobody(self, scene: Scene) -> None:
        rules = scene.prometheus.rules()
        assert len(rules) == len(RECORDINGS) + len(ALERTS)
        assert {(rule["name"], rule["health"], rule.get("lastError", "")) for rule in rules} == {
            (rule["name"], "ok", "") for rule in rules
        }
        for recording in RECORDINGS:
            assert scene.prometheus.vector(f'{{__name__="{recording.name}"}}'), recording.name
        states = {rule["name"]: rule["state"] for rule in rules if "state" in rule}
        assert len(states) > 10
        assert "firing" not in states.values(), states
        waiting = sorted(name for name, state in states.items() if state != "inactive")
        print(f"\n{scene.connector}: {len(states)} alerts, none firing; pending: {', '.join(waiting) or 'none'}")
