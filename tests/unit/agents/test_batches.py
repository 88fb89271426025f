"""Batches: cut, kept, sent, unpacked. Each stands alone; together they hold what taps gave, once."""

from __future__ import annotations

import errno
import io
from pathlib import Path
from typing import Any

import pytest

import kvscope.agents.spool as spool_module
from kvscope.agents.batch import MOST_RECORDS, Batch, Batcher, key_of, records_by
from kvscope.agents.incoming import NoBatchError, OtherVersionError, incoming
from kvscope.agents.spool import Spool
from kvscope.agents.wire import VERSION, exchange_of, listed, sealed
from kvscope.model.errors import InputError
from kvscope.model.exchange import Exchange
from kvscope.probe import layout
from kvscope.probe.recording import Writer
from kvscope.probe.texts import encoded

ENVELOPE: dict[str, Any] = {"agent": {"name": "a", "boot_id": "boot", "version": VERSION}}
MARK: dict[str, Any] = {"rings": {"11-22-ab.ring": [0, 0, 0, [[16384, 3, 0]]]}}


def record(number: int, request: str = "") -> bytes:
    key = encoded(request)[1] if request else layout.NO_KEY
    body = layout.BODY.pack(number, key, layout.NO_KEY, 6, 1, 1, 0, 0, 0, 0, 0, 0, *[number] * 6)
    return (number + 1).to_bytes(8, "little") + body


def info(lost: int = 0, **more: Any) -> dict[str, Any]:
    return {"boot_id": "boot", "pid": 11, "start_ticks": 22, "lost": lost, "earlier": 40} | more


def batcher(rings: dict[str, Any] | None = None) -> tuple[Batcher, Writer]:
    made = Batcher("run", rings or {}, "a")
    return made, made.side()


def unpacked(batch: Batch) -> Any:
    return incoming(sealed(ENVELOPE, batch.data))


def test_a_batch_tells_how_much_came_before_it_and_the_texts_that_it_names() -> None:
    cutter, side = batcher()
    side.texts([(encoded(text)[1], text) for text in ("req-1", "never named")])
    for lost in (0, 5):
        side.process(0, info(lost))
        side.records(0, 0, record(1, "req-1") + record(2))
        side.mark(MARK)
        (batch,) = cutter.cut()
        found = unpacked(batch)
        assert (found.recording, found.name, found.held("11-22")) == ("run", "a", 2)
        assert [text for _, text in found.texts] == ["req-1"]
    assert found.part == 2
    assert {name: found.processes["11-22"][name] for name in ("earlier", "before", "lost")} == {
        "earlier": 42,
        "before": 2,
        "lost": 5,
    }
    assert found.rings == MARK["rings"]


def test_nothing_new_is_no_batch() -> None:
    cutter, side = batcher()
    side.mark(MARK)
    assert cutter.cut() == []


def test_what_is_too_much_for_one_is_cut_and_only_the_last_says_how_far_the_rings_were_read() -> None:
    cutter, side = batcher()
    raw = b"".join(record(number) for number in range(2 * MOST_RECORDS + 5))
    side.process(0, info())
    side.records(0, 0, raw)
    side.mark(MARK)
    batches = cutter.cut()
    assert [batch.whole for batch in batches] == [False, False, True]
    found = [unpacked(batch) for batch in batches]
    assert b"".join(each.raw["11-22"] for each in found) == raw
    assert [each.processes["11-22"]["before"] for each in found] == [0, MOST_RECORDS, 2 * MOST_RECORDS]


def test_an_agent_that_goes_on_counts_on() -> None:
    rings = {"11-22-ab.ring": [2, 40, 0, [[16384, 50, 0], [32768, 3, 0]]]}
    assert records_by(rings) == {"11-22": (11, 2)}
    cutter, side = batcher(rings)
    side.process(0, info(lost=2))
    side.records(0, 0, record(1))
    side.mark(MARK)
    said = unpacked(cutter.cut()[0]).processes["11-22"]
    assert (said["earlier"], said["before"], said["lost"]) == (53, 11, 0)


@pytest.mark.parametrize("cut", [0, 3, 20, -1])
def test_what_is_no_batch_is_told_as_that(cut: int) -> None:
    cutter, side = batcher()
    side.process(0, info())
    side.records(0, 0, record(1))
    side.mark(MARK)
    body = sealed(ENVELOPE, cutter.cut()[0].data)
    with pytest.raises(NoBatchError):
        incoming(body[:cut])
    for at in range(20, len(body), 7):
        damaged = bytearray(body)
        damaged[at] ^= 0x55
        with pytest.raises(NoBatchError):
            incoming(bytes(damaged))


def test_records_that_unpack_to_more_than_they_say_are_not_unpacked() -> None:
    file = io.BytesIO()
    writer = Writer(file)
    writer.mark(ENVELOPE)
    writer.head({"recording": "run", "part": 1, "boot_id": "boot"})
    writer.process(0, info())
    writer.records(0, 0, bytes(layout.RECORD_BYTES * (MOST_RECORDS + 1)))
    with pytest.raises(NoBatchError, match="more than a batch does"):
        incoming(file.getvalue())


def test_another_version_is_told_from_garbage() -> None:
    body = bytearray(sealed(ENVELOPE))
    body[8] = 9
    with pytest.raises(OtherVersionError):
        incoming(bytes(body))


def test_an_exchange_travels_and_one_that_no_clock_shows_does_not() -> None:
    found = Exchange("a", "b", 1, 5, 6, 9)
    assert exchange_of(listed(found)) == found
    assert exchange_of(listed(Exchange("a", "b", 9, 5, 6, 1))) is None
    assert exchange_of(["a", "b", 1, 2, 3]) is None
    assert listed(None) is None


def batch(part: int, held: int = 100, whole: bool = True) -> Batch:
    cutter, side = batcher()
    side.process(0, info())
    side.records(0, 0, b"".join(record(number * part) for number in range(held)))
    side.mark(MARK | {"rings": {"11-22-ab.ring": [0, 0, 0, [[16384, part, 0]]]}})
    (made,) = cutter.cut()
    data = made.data if whole else made.data[: made.data.rindex(b"\x89KVP\x05")]
    return Batch("run", part, data, made.held, whole)


def test_a_spool_gives_batches_in_turn_and_keeps_the_newest(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.add([batch(1), batch(2)])
    for _ in range(2):
        found = spool.oldest(0)
        assert found
        spool.took(found[0])
    assert spool.oldest(0) is None
    assert (spool.waiting, len(list(tmp_path.glob("*.kvs")))) == (0, 1)
    spool.close()
    again = Spool(tmp_path)
    assert again.rings == {"11-22-ab.ring": [0, 0, 0, [[16384, 2, 0]]]}
    again.add([batch(3)])
    assert again.waiting == 2, "whether the newest had been taken is the aggregator's to know"
    again.close()


def test_a_round_that_was_not_finished_is_forgotten(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.add([batch(1), batch(2, whole=False)])
    spool.close()
    (tmp_path / "batch-000000000003.new").write_bytes(b"half of one")
    again = Spool(tmp_path)
    assert again.waiting == 1
    assert len(list(tmp_path.iterdir())) == 1
    again.close()


def test_the_oldest_make_room_and_are_counted_by_process(tmp_path: Path) -> None:
    spool = Spool(tmp_path, most_bytes=3 * len(batch(1).data))
    for part in range(1, 8):
        spool.add([batch(part)])
    assert spool.dropped_batches > 0
    assert spool.dropped == {"11-22": 100 * spool.dropped_batches}
    assert spool.bytes <= 3 * len(batch(1).data)
    spool.close()
    again = Spool(tmp_path)
    assert again.dropped == spool.dropped
    again.close()


def test_where_the_disk_is_full_the_oldest_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path)
    second = batch(2)
    spool.add([batch(1), second])
    write = spool_module._write

    def full(path: Path, data: bytes) -> None:
        if path.suffix == ".kvs" and len(list(tmp_path.glob("*.kvs"))) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, data)

    monkeypatch.setattr(spool_module, "_write", full)
    spool.add([batch(3)])
    assert (spool.waiting, spool.dropped_batches) == (2, 1)
    found = spool.oldest(0)
    assert found
    assert found[1] == second.data
    spool.close()


def test_a_spool_is_one_agent_s(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    with pytest.raises(InputError, match="another agent"):
        Spool(tmp_path)
    spool.close()
    Spool(tmp_path).close()


def test_a_process_s_name_is_that_in_its_ring_s() -> None:
    assert key_of(info()) == "11-22"
