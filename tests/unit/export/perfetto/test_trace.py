"""The trace of a recording holds what kvscope says of it: each request, moment and step, to the nanosecond."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from kvscope.core.critical_path import split
from kvscope.export import passage as passage_module
from kvscope.model.events import Events
from kvscope.model.requests import RequestSplit
from kvscope.probe.vocabulary import MOMENT_CODE, MOMENTS, VALUES
from kvscope.sources.opening import open_all

from .reading import Told, of_files

RECORDINGS = [Path(f"docs/pictures/{name}.kvs") for name in ("push-early", "push-sequential", "pull")]
real = pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
AS_SLICES = ("step", "post_begun", "prepared", "posted", "handshake_ended", "load")
"""Moments that are no instants: ends of slices, and counters."""


@cache
def told(path: Path) -> Told:
    return of_files(path)


@cache
def events(path: Path) -> Events:
    return open_all([path], None).events


@cache
def requests(path: Path) -> dict[str, RequestSplit]:
    return {request.request: request for request in split(events(path))}


def count(path: Path, moment: str) -> int:
    return int((events(path).rows["moment"] == MOMENT_CODE[moment]).sum())


@real
def test_the_path_is_the_requests_own_and_adds_up(path: Path) -> None:
    found = told(path)
    for name, request in requests(path).items():
        (whole,) = (each for each in found.of("request") if each.args["request"] == name)
        mine = [each for each in found.of("path") if each.args["request"] == name]
        assert [(each.name, each.begin, each.end, each.args["ended_by"]) for each in mine] == [
            (span.stage, span.begin, span.end, span.ended_by) for span in request.path
        ]
        assert sum(each.ns for each in mine) == request.ttft_ns == whole.ns == whole.args["ttft_ns"]
        assert {each.track.rpartition("/")[0] for each in mine} == {whole.track}


@real
def test_what_was_hidden_is_drawn_apart(path: Path) -> None:
    found = told(path)
    for name, request in requests(path).items():
        mine = [each for each in found.of("hidden") if each.args["request"] == name]
        assert sorted((each.name, each.begin, each.end or 0) for each in mine) == sorted(
            (span.stage, span.begin, span.end) for span in request.hidden_spans
        )
        assert {each.track.rpartition("/")[2] for each in mine} <= {f"hidden: {branch}" for branch in request.slack_ns}


@real
def test_arguments_of_a_request_are_its_split(path: Path) -> None:
    for whole in told(path).of("request"):
        request = requests(path)[whole.args["request"]]
        args = whole.args
        assert {name: ns for name, ns in args.items() if name.startswith("exposed_ns_")} == {
            f"exposed_ns_{stage}": ns for stage, ns in request.exposed.items()
        }
        for cls, (low, high) in request.class_ns.items():
            name = cls.replace(" ", "_")
            assert args[f"class_ns_{name}"] == low
            assert args.get(f"at_most_ns_{name}", low) == high
        assert (args["peer_request"], args["shape"], args["state"]) == (request.peer_request, request.shape, "complete")
        assert (args["prefill_engine"], args["decode_engine"]) == ("p0", "d0")
        assert args["transfer_bytes"] == request.transfer_bytes
        assert args["knew_peer"] == request.knew_peer
        assert args["finish_reason"] == request.finish_reason
        assert {name: args[name] for name in args if name.startswith("slack_ns_")} == {
            f"slack_ns_{branch}_{edge}": ns
            for branch, bounds in request.slack_ns.items()
            for edge, ns in zip(("at_least", "at_most"), bounds, strict=True)
        }


@real
def test_every_moment_is_there_once(path: Path) -> None:
    found = Counter(each.name for each in told(path).of("moment"))
    expected = Counter(MOMENTS[code] for code in events(path).rows["moment"].tolist())
    assert found == Counter({name: times for name, times in expected.items() if name not in AS_SLICES})
    spans = Counter(each.name for each in told(path).of("connector"))
    assert spans == {"prepare": expected["post_begun"], "submit": expected["posted"], "handshake": spans["handshake"]}
    assert spans["handshake"] == expected["handshake_ended"]


@real
def test_moments_lie_on_their_threads_and_say_whose_they_are(path: Path) -> None:
    one = events(path)
    rows = one.rows[one.rows["moment"] == MOMENT_CODE["reserved"]]
    expected = {(int(row["t"]), one.texts[int(row["request"])], int(row["values"][0])) for row in rows}
    mine = told(path).of("moment", "reserved")
    assert {(each.begin, each.args["request"], each.args["blocks"]) for each in mine} == expected
    (track,) = {each.track for each in mine}
    assert track.startswith("3 decode d0/core process, pid ")
    assert track.endswith("/d0 core")


@real
def test_what_engines_told_of_themselves(path: Path) -> None:
    for each in told(path).of("moment", "started"):
        (process,) = (one for one in events(path).processes if f", pid {one.pid}/" in each.track)
        assert each.args["engine"] == process.engine
        assert each.args.keys() == process.started.keys()
        assert each.args.get("block_size", "128") == "128"


@real
def test_steps(path: Path) -> None:
    rows = events(path).rows
    rows = rows[rows["moment"] == MOMENT_CODE["step"]]
    begin, folded = (rows["values"][:, VALUES["step"].index(name)] for name in ("begin", "folded"))
    found = told(path).of("step") + told(path).of("idle")
    assert Counter((each.begin, each.end) for each in found) == Counter(
        zip(begin.tolist(), rows["t"].tolist(), strict=True)
    )
    assert len(told(path).of("idle")) == int((folded > 0).sum())
    assert {each.track.rpartition("/")[2] for each in found} == {"p0 core", "p0 worker", "d0 core", "d0 worker"}
    assert all(each.depth == 0 for each in found), "steps of one thread follow one another"
    assert any(each.name.startswith("step ") and " tok" in each.name for each in found)


@real
def test_counters_end_where_the_recording_does(path: Path) -> None:
    one = events(path)
    for engine in ("p0", "d0"):
        process = [index for index, process in enumerate(one.processes) if process.engine == engine]
        rows = one.rows[(one.rows["moment"] == MOMENT_CODE["load"]) & np.isin(one.rows["process"], process)]
        rows = rows[np.argsort(rows["t"])]
        for column, name in enumerate(VALUES["load"]):
            (track,) = (track for track in told(path).counters if track.endswith(f"{engine}/load/{name}"))
            assert told(path).counters[track] == list(
                zip(rows["t"].tolist(), rows["values"][:, column].tolist(), strict=True)
            )


@real
def test_requests_in_hand_off(path: Path) -> None:
    counted = told(path).counters["1 requests/in hand-off"]
    stamps = [{(stamp.leg, stamp.moment): stamp.t for stamp in one.stamps} for one in requests(path).values()]
    handed = [(one["prefill", "computed"], one["decode", "ready"]) for one in stamps]
    for t, value in counted:
        assert value == sum(begin <= t < end for begin, end in handed)
    assert counted[-1][1] == 0


@real
def test_legs_are_gapless(path: Path) -> None:
    for side in ("prefill", "decode"):
        legs = [each for each in told(path).of("leg") if each.track.endswith(f"{side} legs")]
        assert len(legs) == len(requests(path))
        for leg in legs:
            mine = [
                each
                for each in told(path).of("phase")
                if each.uuid == leg.uuid and leg.begin <= each.begin < (leg.end or 0)
            ]
            assert {each.args["request"] for each in mine} == {leg.args["request"]}
            assert {each.depth for each in mine} == {1}
            assert sum(each.ns for each in mine) == leg.ns
            assert "unattributed" not in {each.name for each in mine}


@pytest.mark.parametrize("most", [600, 1500])
def test_the_same_whatever_the_size_of_parts(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    whole = told(RECORDINGS[0])
    monkeypatch.setattr(passage_module, "MOST", most)
    bit_by_bit = of_files(RECORDINGS[0])

    def seen(one: Told) -> Counter[tuple[object, ...]]:
        return Counter(
            (
                each.track.partition("lane")[0],
                each.name,
                each.category,
                each.begin,
                each.end,
                *sorted(each.args.items()),
            )
            for each in one.events
        )

    assert seen(bit_by_bit) == seen(whole)
    assert bit_by_bit.counters == whole.counters


def test_the_whole_recording_is_one_slice_that_tells_clocks_and_losses() -> None:
    (whole,) = told(RECORDINGS[0]).of("recording")
    rows = events(RECORDINGS[0]).rows
    assert whole.name == "63 requests, nothing lost"
    assert (whole.begin, whole.end) == (int(rows["t"].min()), int(rows["t"].max()))
    assert (whole.args["lost"], whole.args["events"], whole.args["requests.complete"]) == (0, len(rows), 63)
    assert told(RECORDINGS[0]).metadata["kvscope.lost"] == 0
    wall = events(RECORDINGS[0]).processes[0].wall_ns
    assert wall is not None
    assert told(RECORDINGS[0]).clocks == {3: whole.begin, 1: whole.begin + wall}
