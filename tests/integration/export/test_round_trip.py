"""Recording -> tables or lines -> report says what recording -> report says, to the last byte."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kvscope.export import passage as passage_module
from kvscope.export.parquet import sink as sink_module
from kvscope.probe.recording import Writer
from kvscope.probe.texts import encoded
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, MOMENTS, UNKNOWN, VALUES
from kvscope.sources.opening import open_all
from kvscope.sources.records import RECORD, low64

from ...unit.core.simulator import Cause, fleets, items
from ...unit.core.unusual import Items, on_hosts, worlds, years
from ...unit.sources.routers_written import dynamo_lines, llmd_spans, otlp_json, router_moments, without_router
from ..live.scenes import BEGIN, SECOND, Recording, steady
from .trips import PICTURES, exported, lines, report, tables

RECORDINGS = [PICTURES / f"{name}.kvs" for name in ("pull", "push-early", "push-sequential")]
EXAMPLES = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Folders(Protocol):
    """Gives an empty folder."""

    def __call__(self) -> Path: ...


@pytest.fixture
def folders() -> Iterator[Folders]:
    """On shared memory, where many small files take no time to be on a disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield lambda: Path(tempfile.mkdtemp(dir=made))


def agrees(folder: Path, *sources: Path) -> None:
    """Both formats, and each made anew of the other, say what the sources say."""
    exported(sources, folder / "tables", folder / "a.jsonl")
    expected = report(*sources)
    assert report(folder / "tables") == expected
    assert report(folder / "a.jsonl") == expected
    assert report(lines(folder / "b.jsonl", folder / "tables")) == expected
    assert report(tables(folder / "more", folder / "a.jsonl")) == expected


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many parts, row groups and batches."""
    monkeypatch.setattr(passage_module, "MOST", 300)
    monkeypatch.setattr(sink_module, "EVENTS_MOST", 500)
    monkeypatch.setattr(sink_module, "REQUESTS_MOST", 7)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_of_real_recordings(recording: Path, folders: Folders) -> None:
    agrees(folders(), recording)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_of_real_recordings_in_many_pieces(recording: Path, folders: Folders) -> None:
    agrees(folders(), recording)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_of_several_recordings_together(folders: Folders) -> None:
    agrees(folders(), *RECORDINGS)


def test_events_are_the_same_to_the_bit(tmp_path: Path) -> None:
    for recording in RECORDINGS:
        whole = open_all([recording], None).events
        again = open_all([tables(tmp_path / recording.stem, recording)], None).events
        assert again.processes == whole.processes
        named = {key for key in whole.texts if key in again.texts}
        assert {key: whole.texts[key] for key in named} == again.texts
        assert sorted(map(bytes, again.rows)) == sorted(map(bytes, whole.rows))


def write(path: Path, moments: Items) -> Path:
    path.write_text("".join(f"{json.dumps(item)}\n" for item in moments))
    return path


@pytest.mark.slow
@given(fleets(most=6))
@EXAMPLES
def test_of_every_shape(folders: Folders, fleet: list[Cause]) -> None:
    moments = [item for cause in fleet for item in items(cause)]
    agrees(folders(), write(folders() / "a.jsonl", moments))


@pytest.mark.slow
@given(worlds(), years(), st.booleans())
@EXAMPLES
def test_of_what_went_wrong_on_one_host_or_two(folders: Folders, world: list[Items], ahead: int, several: bool) -> None:
    moments = [item for request in world for item in request]
    moments = on_hosts(moments, ahead) if several else moments
    agrees(folders(), write(folders() / "a.jsonl", moments))


def test_losses_notes_and_who_ended_come_along(folders: Folders) -> None:
    path = folders() / "cut.kvs"
    with Recording(path) as recording:
        recording.process(0, lost=7, earlier=11, errors=2, alive=False)
        recording.process(1, segments=0, note="vLLM 0.1 is not supported", alive=True, on=False)
        recording.process(2, realtime_ns=0)
        recording.records(0, range(BEGIN, BEGIN + SECOND, SECOND // 10), "cmpl-a-0-aaaaaaaa")
        recording.records(2, range(BEGIN, BEGIN + SECOND, SECOND // 10), "cmpl-a-0-bbbbbbbb")
    whole = json.loads(report(path))["summary"]
    assert whole["condition"]["tally"]["lost"] == 9
    assert whole["condition"]["not_instrumented"]
    assert "was not ended" in whole["notes"][0]
    agrees(folders(), path)
    processes = open_all([tables(folders() / "tables", path)], None).events.processes
    assert processes == open_all([path], None).events.processes
    assert [(each.ended, each.off, each.wall_ns is None) for each in processes] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]


def test_a_damaged_recording_stays_one_of_which_something_is_missing(folders: Folders) -> None:
    path = steady(folders() / "a.kvs", 10)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0x40
    path.write_bytes(raw)
    assert "is damaged" in json.loads(report(path))["summary"]["notes"][0]
    agrees(folders(), path)


def test_recordings_that_overlap_are_one_and_what_one_missed_the_other_has(
    folders: Folders,
) -> None:
    folder = folders()
    times = [BEGIN + index * SECOND // 20 for index in range(200)]
    for name, low, high, earlier, lost in (("a", 0, 150, 0, 5), ("b", 100, 200, 105, 3), ("c", 0, 0, 200, 0)):
        with Recording(folder / name) as recording:
            recording._sequences[0, 1] = low
            recording.process(0, earlier=earlier, lost=lost)
            recording.process(1)
            recording.records(1, times[:3] if name == "a" else [], "cmpl-x-0-aaaaaaaa")
            recording.records(0, times[low:high], "cmpl-y-0-aaaaaaaa")
            recording.end()
    sources = [folder / name for name in "abc"]
    found = json.loads(report(*sources))["summary"]
    assert found["notes"] == ["50 records in more than one source, each counted once"]
    assert found["condition"]["tally"]["lost"] == 8
    agrees(folders(), *sources)


def gapped(folder: Path) -> list[Path]:
    """Two recordings with ten seconds between them, the first cut short; a request of each goes no further than it."""
    times = [BEGIN + index * SECOND // 20 for index in range(400)]
    for name, low, high in (("a", 0, 100), ("b", 300, 400)):
        with Recording(folder / name) as recording:
            recording._sequences[0, 1] = low
            recording.process(0, earlier=low)
            recording.process(1, earlier=low * 2)
            recording.records(0, times[low:high], f"cmpl-{name}-0-aaaaaaaa")
            recording.records(1, times[low:high], f"cmpl-{name}-1-bbbbbbbb")
            if name == "b":
                recording.end()
    return [folder / name for name in "ab"]


def test_what_lies_between_recordings_cuts_requests_in_their_exports_too(folders: Folders) -> None:
    sources = gapped(folders())
    found = json.loads(report(*sources))["summary"]
    assert any("not in these recordings: 700 events" in note for note in found["notes"])
    assert found["condition"]["states"]["incomplete"] == 2
    folder = folders()
    agrees(folder, *sources)
    expected = [each.gaps for each in open_all(sources, None).events.processes]
    assert [sum(gap.events for gap in gaps) for gaps in expected] == [200, 500]
    for made in (folder / "tables", folder / "a.jsonl"):
        assert [each.gaps for each in open_all([made], None).events.processes] == expected


def test_two_processes_of_one_engine_that_nothing_tells_apart_have_lost_together(
    folders: Folders,
) -> None:
    path = folders() / "a.kvs"
    with Recording(path) as recording:
        for number, start in ((0, 7), (1, 8)):
            recording.process(number, pid=1, start_ticks=start, started={"engine": "e"}, lost=3)
            recording.records(number, range(BEGIN + number, BEGIN + SECOND, SECOND // 4), "cmpl-a-0-aaaaaaaa")
        recording.end()
    assert json.loads(report(path))["summary"]["condition"]["tally"]["lost"] == 6
    agrees(folders(), path)


@st.composite
def records(draw: st.DrawFn) -> np.ndarray:
    """Of moments and with values that nobody ever stamped."""
    rows = np.zeros(draw(st.integers(1, 12)), RECORD)
    rows["sequence"] = np.arange(len(rows)) + 1
    rows["values"] = UNKNOWN
    requests = [low64(encoded(text)[1]) for text in IDS] + [0, 12345678901234567890]
    for row in rows:
        row["t"] = draw(st.integers(BEGIN, BEGIN + 5) | st.integers(-(2**62) + 1, 2**62 - 1) | st.just(2**62)) or 1
        row["moment"] = moment = draw(st.integers(1, len(MOMENTS) + 2))
        row["request"], row["peer"] = draw(st.sampled_from(requests)), draw(st.sampled_from(requests))
        for name, most in (("leg", 6), ("thread", 12), ("state", 5), ("reason", 60), ("rank", 65535), ("flags", 63)):
            row[name] = draw(st.integers(0, most))
        row["peer_rank"], row["step"] = draw(st.integers(0, 65535)), draw(st.integers(0, 2**32 - 1))
        for slot, name in enumerate(VALUES.get(MOMENTS[moment], ()) if moment < len(MOMENTS) else ()):
            row["values"][slot] = draw(value(name, requests))
    rows[0]["t"], rows[0]["moment"], rows[0]["leg"] = BEGIN, MOMENT_CODE["chunk"], LEG_CODE["prefill"]
    return rows


IDS = ["cmpl-a-0-aaaaaaaa", "cmpl-b-0-bbbbbbbb", "e0-1", "über\N{SNOWMAN}", "#0123456789abcdef"]


def value(name: str, keys: list[int]) -> st.SearchStrategy[int]:
    if name in ("peer_engine", "reason_text"):
        return st.sampled_from([int(np.uint64(key).astype(np.int64)) for key in keys if key]) | st.just(UNKNOWN)
    return st.integers(0, 2) if name == "direction" else st.integers(0, 2**48) | st.just(UNKNOWN)


def recorded(path: Path, rows: np.ndarray) -> Path:
    with open(path, "wb") as file:
        writer = Writer(file)
        started: dict[str, Any] = {"engine": "e0", "engine_id": "e0-1"}
        writer.process(0, {"boot_id": "b", "pid": 1, "start_ticks": 7, "segments": 1, "started": started})
        writer.texts([(encoded(text)[1], text) for text in IDS])
        writer.records(0, 1, rows.tobytes())
        writer.end({})
    return path


@pytest.mark.slow
@given(records())
@settings(parent=EXAMPLES, max_examples=25, phases=[Phase.generate])
def test_of_records_that_nobody_ever_stamped(folders: Folders, rows: np.ndarray) -> None:
    folder = folders()
    path = recorded(folder / "a.kvs", rows)
    agrees(folders(), path)


@pytest.mark.parametrize("router", ["dynamo", "llmd"])
def test_of_a_recording_beside_what_a_router_wrote(folders: Folders, router: str) -> None:
    folder = folders()
    engines = without_router(PICTURES / "push-early.kvs", folder / "engines.kvs")
    told = router_moments(open_all([PICTURES / "push-early.kvs"], None).events)
    log = folder / "router.jsonl"
    spans = [otlp_json(llmd_spans(name, moments)) for name, moments in told.items()]
    log.write_text("\n".join(dynamo_lines(told) if router == "dynamo" else spans) + "\n")
    assert json.loads(report(engines, log))["summary"]["condition"]["complete_shapes"] == {"push": 63}
    agrees(folders(), engines, log)
