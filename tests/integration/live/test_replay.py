"""A replay gives what a recording holds, when it is its time."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from kvscope.live.feed import Batch, Flow
from kvscope.live.replay import WINDOW_NS, Replay
from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.sources import open_sources
from kvscope.sources.lines import write_jsonl

from .conftest import Play
from .scenes import BEGIN, MONOTONIC_NS, REALTIME_NS, SECOND, Recording, steady

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
EARLY, PULL = PICTURES / "push-early.kvs", PICTURES / "pull.kvs"


def rows_of(*parts: Events) -> list[bytes]:
    """What events say, whichever number their processes have, in one order."""
    found = []
    for part in parts:
        rows = part.rows.copy()
        names = [process.engine for process in part.processes]
        rows["process"] = 0
        found += [names[number].encode() + bytes(row) for number, row in zip(part.rows["process"], rows, strict=True)]
    return sorted(found)


def times(batch: Batch) -> list[int]:
    return sorted(batch.events.rows["t"].tolist())


def test_played_to_the_end_it_has_given_each_event_once_in_order_and_with_its_texts(play: Play) -> None:
    whole = open_sources([EARLY]).events
    player = play(EARLY)
    batches = [player.after(0), *player.to_the_end(0.25)]
    assert rows_of(*(batch.events for batch in batches)) == rows_of(whole)
    assert [batch.restart for batch in batches] == [True] + [False] * (len(batches) - 1)
    texts: dict[int, str] = {}
    last = 0
    for batch in batches:
        assert all(last < t <= batch.now for t in times(batch))
        keys = set(batch.events.rows["request"].tolist()) & whole.texts.keys()
        assert keys <= batch.events.texts.keys(), "a batch brings the texts that its own events name"
        last, texts = batch.now, texts | batch.events.texts
    assert texts == whole.texts


def test_speed_is_how_many_seconds_pass_in_one(play: Play, tmp_path: Path) -> None:
    player = play(steady(tmp_path / "a", 60))
    begin = player.after(0).now
    for speed, passed in ((1, 2.0), (10, 20.0), (0.5, 1.0)):
        player.replay.set_speed(speed)
        before = player.after(0).now
        batch = player.after(2)
        assert batch.now - before == passed * SECOND
        assert times(batch) == [t for t in times(batch) if before < t <= batch.now]
    assert player.after(0).now - begin == 23 * SECOND
    assert "x0.5" in player.after(0).remark
    player.replay.faster()
    assert player.replay.place is not None
    assert player.replay.place.speed == 1
    player.replay.slower()
    player.replay.slower()
    assert player.replay.place.speed == 0.2
    for wrong in (0.01, 5000, float("nan")):
        with pytest.raises(InputError, match=r"choose between 0\.1 and 1000"):
            player.replay.set_speed(wrong)


def test_paused_nothing_comes_and_time_stands_still(play: Play, tmp_path: Path) -> None:
    player = play(steady(tmp_path / "a", 10))
    player.after(0)
    here = player.after(3)
    player.replay.pause()
    for _ in range(3):
        batch = player.after(5)
        assert (batch.flow, batch.now, len(batch.events), batch.restart) == (Flow.PAUSED, here.now, 0, False)
    player.replay.play()
    batch = player.after(1)
    assert (batch.flow, batch.now - here.now) == (Flow.REPLAY, SECOND)
    assert len(batch.events) == 40


def test_a_step_can_be_seen_where_it_stands_still(play: Play, tmp_path: Path) -> None:
    player = play(steady(tmp_path / "a", 4000))
    player.after(0)
    assert player.after(3.25).remark.startswith("0:03 of 1:06:40,")
    told = []
    for seconds in (0.25, 0.25, -0.25, 3600):
        player.replay.step(seconds)
        told.append(player.after(7).remark.partition(" of ")[0])
    assert told == ["0:03.500", "0:03.750", "0:03.500", "1:00:03.500"]


def test_no_time_passes_while_it_is_held(play: Play, tmp_path: Path) -> None:
    player = play(steady(tmp_path / "a", 100))
    player.after(0)
    here = player.after(3)
    with player.replay.held():
        assert player.after(5).now == here.now
        player.wall += 50
    assert player.after(1).now == here.now + SECOND
    player.replay.pause()
    with player.replay.held():
        pass
    assert player.after(1).flow is Flow.PAUSED


def test_a_step_forward_gives_its_stretch_and_a_step_back_the_window_before(play: Play, tmp_path: Path) -> None:
    path = steady(tmp_path / "a", 200)
    whole = np.sort(open_sources([path]).events.rows["t"])
    player = play(path)
    player.after(0)
    player.replay.seek(150)
    here = player.after(0)
    player.replay.step()
    on = player.after(7)
    assert (on.flow, on.now - here.now, on.restart) == (Flow.PAUSED, SECOND // 4, False)
    assert times(on) == whole[(whole > here.now) & (whole <= on.now)].tolist()
    player.replay.step(-0.25)
    back = player.after(7)
    assert (back.now, back.restart) == (here.now, True)
    assert times(back) == whole[(whole > back.now - WINDOW_NS) & (whole <= back.now)].tolist()


def test_a_jump_goes_where_it_is_told_and_no_further_than_there_is(play: Play, tmp_path: Path) -> None:
    player = play(steady(tmp_path / "a", 100))
    begin = player.after(0).now
    player.replay.seek(60)
    assert player.after(5).now - begin == 60 * SECOND
    player.replay.skip(10)
    player.replay.skip(10)
    assert player.after(0).now - begin == 80 * SECOND
    assert player.after(0).first == begin
    player.replay.skip(-1e9)
    batch = player.after(0)
    assert (batch.now, batch.restart) == (begin, True)
    player.replay.seek(float("inf"))
    ended = player.after(0)
    assert (ended.flow, ended.restart) == (Flow.ENDED, False)
    assert ended.remark.startswith("1:40 of 1:40")
    player.replay.play()
    again = player.after(0)
    assert (again.flow, again.now, again.restart) == (Flow.REPLAY, begin, True)


def test_a_jump_may_be_asked_for_before_the_files_have_been_read(play: Play, tmp_path: Path) -> None:
    path = steady(tmp_path / "a", 100)
    replay = Replay([path], lambda: 0.0)
    replay.seek(50)
    replay.wait()
    batch = replay.poll()
    assert (batch.now, batch.restart) == (BEGIN + 50 * SECOND, True)
    replay.close()


def test_silence_is_passed_over_up_to_a_second_before_what_follows(play: Play, tmp_path: Path) -> None:
    with Recording(tmp_path / "a") as recording:
        recording.process(0)
        # The first part holds what the ring held before the recording began.
        recording.records(0, [SECOND, 2 * SECOND, 4000 * SECOND, 4001 * SECOND])
        recording.records(0, [4020 * SECOND])
        recording.end()
    player = play(tmp_path / "a")
    player.after(0)
    assert times(player.after(1)) == [2 * SECOND]
    assert player.after(1).now == 3999 * SECOND
    assert times(player.after(2)) == [4000 * SECOND, 4001 * SECOND]
    assert player.after(1).now == 4002 * SECOND, "twenty seconds are none"
    player.replay.pause()
    player.replay.seek(100)
    assert player.after(0).now == 101 * SECOND, "who stands still in it stays"


def test_one_batch_is_bounded_and_nothing_is_left_out(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvscope.live.replay.MOST", 500)
    path = steady(tmp_path / "a", 300)
    player = play(path)
    player.replay.set_speed(1000)
    batches = [player.after(0), *player.to_the_end()]
    assert max(len(batch.events) for batch in batches) <= 500
    assert rows_of(*(batch.events for batch in batches)) == rows_of(open_sources([path]).events)
    player.replay.seek(200)
    batch = player.after(0)
    assert (batch.now, batch.restart) == (BEGIN + 200 * SECOND, True)
    assert 400 <= len(batch.events) <= 500
    assert min(times(batch)) > batch.now - 14 * SECOND, "the window is shorter where it would be too much"


def test_several_recordings_are_one_and_a_record_in_two_counts_once(play: Play, tmp_path: Path) -> None:
    whole = EARLY.read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    player = play(tmp_path / "cut", EARLY, PULL)
    batches = [player.after(0), *player.to_the_end()]
    opened = open_sources([tmp_path / "cut", EARLY, PULL])
    assert opened.duplicates > 0
    assert rows_of(*(batch.events for batch in batches)) == rows_of(opened.events)
    assert len(batches[-1].events.processes) == len(opened.events.processes)
    assert player.replay.name == "cut and 2 more"


def test_what_is_damaged_or_cut_is_said_and_the_rest_is_played(play: Play, tmp_path: Path) -> None:
    raw = bytearray(steady(tmp_path / "a", 30).read_bytes())
    raw[len(raw) // 2] ^= 16
    (tmp_path / "bad").write_bytes(raw[:-10])
    player = play(tmp_path / "bad")
    batches = [player.after(0), *player.to_the_end()]
    faults = " ".join(batches[0].faults)
    assert "is damaged: 1 of its parts" in faults
    assert "was not ended" in " ".join(batches[0].notes)
    assert sum(len(batch.events) for batch in batches) in (1200 - 20, 1200)  # the part was one of events, or of a text


def test_a_file_that_changes_meanwhile_is_said(play: Play, tmp_path: Path) -> None:
    path = steady(tmp_path / "a", 30)
    player = play(path)
    assert len(player.after(0).events)
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)
    batches = list(player.to_the_end())
    assert "has changed since it was opened" in " ".join(batches[-1].faults)


def test_losses_and_engines_appear_when_they_did(play: Play, tmp_path: Path) -> None:
    with Recording(tmp_path / "a") as recording:
        recording.process(0)
        recording.records(0, range(SECOND, 10 * SECOND, SECOND))
        recording.process(0, lost=5)
        recording.process(1, lost=2)
        recording.records(0, range(10 * SECOND, 20 * SECOND, SECOND))
        recording.records(1, range(12 * SECOND, 20 * SECOND, SECOND))
        recording.end()
    player = play(tmp_path / "a")
    player.after(0)
    player.replay.pause()
    for at, told in ((3, [("e0", 0)]), (10, [("e0", 5)]), (15, [("e0", 5), ("e1", 2)]), (4, [("e0", 0)])):
        player.replay.seek(at)
        assert [(each.engine, each.lost) for each in player.after(0).events.processes] == told


def test_the_time_of_day_is_by_the_clocks_of_the_process(play: Play, tmp_path: Path) -> None:
    player = play(steady(tmp_path / "a", 3))
    batch = player.after(0)
    assert batch.wall_ns == REALTIME_NS - MONOTONIC_NS
    with Recording(tmp_path / "b") as recording:
        recording.process(0, realtime_ns=0)
        recording.records(0, [SECOND])
    assert play(tmp_path / "b").after(0).wall_ns is None


def test_json_lines_are_played_alike(play: Play, tmp_path: Path) -> None:
    whole = open_sources([EARLY]).events
    (tmp_path / "a.jsonl").write_text("\n".join(write_jsonl(whole)))
    player = play(tmp_path / "a.jsonl")
    batches = [player.after(0), *player.to_the_end()]
    kept = [batch.events for batch in batches]
    assert sum(map(len, kept)) >= len(whole)
    assert {process.engine for process in kept[-1].processes} == {process.engine for process in whole.processes}
    assert batches[0].now == min(whole.rows["t"]), "what engines say of themselves without a time is no beginning"
    assert player.replay.place is not None
    assert player.replay.place.length_s == pytest.approx((whole.rows["t"].max() - whole.rows["t"].min()) / SECOND)
    both = play(tmp_path / "a.jsonl", PULL)
    events = [both.after(0).events, *(batch.events for batch in both.to_the_end())]
    assert sum(map(len, events)) == sum(map(len, kept)) + len(open_sources([PULL]).events)


def test_too_many_json_lines_are_refused_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvscope.sources.past.LINES_MOST", 1000)
    (tmp_path / "a.jsonl").write_text(json.dumps({"version": 1}) + "\n" * 2000)
    assert_refused([tmp_path / "a.jsonl"], r"holds up to 0 MB of them in memory.*kvscope report")


def assert_refused(paths: list[Path], said: str) -> None:
    replay = Replay(paths)
    replay.wait()
    with pytest.raises(InputError, match=said):
        replay.poll()
    replay.close()


def test_what_cannot_be_replayed_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "other").write_bytes(b"PNG nothing of ours")
    with Recording(tmp_path / "nobody") as recording:
        recording.process(0)
        recording.end()
    (tmp_path / "lines").write_text('{"version": 1}\n')
    for name, said in (
        ("gone", "there is no .*gone; name a recording"),
        ("empty", "is empty"),
        ("other", "neither a recording nor JSON lines"),
        ("nobody", "no process has recorded anything in .*nobody"),
        ("lines", "no process has recorded anything in .*lines"),
    ):
        assert_refused([EARLY, tmp_path / name] if name != "nobody" else [tmp_path / name], said)
    assert_refused([Path("-")], "standard input cannot be replayed")
    os.mkfifo(tmp_path / "pipe")
    assert_refused([tmp_path / "pipe"], "pipe cannot be replayed: it cannot be gone back in")
    assert_refused([], "nothing to replay")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("buffer is smaller\nthan requested"), "ValueError: buffer is smaller than requested"),
        (OSError(5, "Input/output error"), "input/output error$"),
        (OSError(5, "Input/output error", "/data/b.kvs"), r"input/output error \(/data/b\.kvs\)$"),
        (OSError("nobody knows"), "nobody knows$"),
        (MemoryError(), "not enough memory"),
        (KeyError("begin"), "KeyError: 'begin'"),
    ],
    ids=lambda value: repr(value) if isinstance(value, Exception) else "",
)
@pytest.mark.parametrize("where", ["kvscope.live.replay.open_past", "kvscope.sources.past.Past.between"])
def test_whatever_goes_wrong_is_a_sentence_with_the_name_of_the_file(
    monkeypatch: pytest.MonkeyPatch, where: str, error: Exception, said: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(where, fail)
    with closing(Replay([EARLY])) as replay:
        assert replay.wait(60)
        with pytest.raises(InputError, match=rf"^push-early\.kvs cannot be replayed: .*{said}") as caught:
            replay.poll()
    assert caught.value.__cause__ is error


def test_a_recording_is_saved_already(play: Play, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is saved already, in .*push-early\.kvs"):
        play(EARLY).replay.save(tmp_path)


def test_progress_is_said_until_the_files_have_been_read(tmp_path: Path) -> None:
    replay = Replay([steady(tmp_path / "a.kvs", 300)])
    batch = replay.poll()
    if replay.place is None:  # the thread may have been quicker
        assert batch.remark.startswith("reading a.kvs: ")
        assert len(batch.events) == 0
    replay.close()
