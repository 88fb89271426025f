"""Ids under other names join as they did, and say nothing to who lacks the key."""

from __future__ import annotations

import os
import string
import threading
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvscope.core.join import base_id, router_id
from kvscope.probe import ids as ids_module
from kvscope.probe import recorder
from kvscope.probe.ids import DROP, HASH, KEEP, LEAST_BYTES, MADE, Ids, from_environment, read_key
from kvscope.probe.reader import list_rings
from kvscope.probe.texts import encoded
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE

from .conftest import Probe

IDS = Ids(b"k" * 32)
WORDS = st.sampled_from(
    (
        "cmpl",
        "chatcmpl",
        "0_cmpl",
        "12_chatcmpl",
        "0",
        "7",
        "1234",
        "12345678",
        "deadbeef",
        "Deadbeef",
        "",
        "x",
        "10.0.0.7",
    )
)
TEXTS = st.lists(WORDS | st.text(string.printable.replace("\n", ""), max_size=9), min_size=1, max_size=7).map("-".join)
ANY = TEXTS | st.text(max_size=40)
USUAL = "cmpl-billing-10.0.0.7-0-1f3a9c04"


@given(ANY)
@example(USUAL)
@example("chatcmpl-deadbeef-12345678")
@example("cmpl-cmpl-0-aaaaaaaa")
@example("cmpl--0")
@example("٣_cmpl-x-٣-aaaaaaaa")
def test_what_ids_have_in_common_is_still_in_common(text: str) -> None:
    """Readers take the random tail off, and look for the router's id inside."""
    if "\n" in text:
        return
    assert base_id(IDS.name(text)) == IDS.name(base_id(text))
    assert router_id(IDS.name(text)) == IDS.name(router_id(text))


@given(ANY | st.builds("{}-{}-{}".format, st.sampled_from(("cmpl", "chatcmpl")), TEXTS, WORDS))
@example(USUAL)
@example("chatcmpl-x-y-1f3a9c04")
@example("chatcmpl-x-12345678-1f3a9c04")
def test_the_shorter_way_leads_to_the_same_name(text: str) -> None:
    assert IDS.name(text) == IDS.made(text)


def test_the_shorter_way_is_taken() -> None:
    for text in (USUAL, "chatcmpl-550e8400-e29b-41d4-a716-4466554400ab-1f3a9c04", f"cmpl-{'0a' * 16}-0-1f3a9c04"):
        assert IDS._usual(text) == IDS.made(text)


@given(ANY, ANY)
def test_different_ids_have_different_names(one: str, other: str) -> None:
    assert (IDS.name(one) == IDS.name(other)) == (one == other)


@given(st.text("abdefghijklmnop.:/@_", min_size=4, max_size=30))
def test_nothing_of_a_word_is_left(word: str) -> None:
    text = f"cmpl-{word}-0-1f3a9c04"
    named = IDS.name(text).removeprefix("cmpl-")
    assert not any(word[at : at + 4] in named for at in range(len(word) - 3))
    assert "1f3a9c04" not in named


def test_a_name_needs_the_key() -> None:
    assert Ids(b"k" * 32).name(USUAL) == IDS.name(USUAL)
    assert Ids(b"l" * 32).name(USUAL) != IDS.name(USUAL)
    low = encoded(USUAL)[1][:8]
    assert Ids(b"l" * 32).key(low) != IDS.key(low) != blake2b(low, digest_size=16).digest()


def test_the_engine_s_words_stay() -> None:
    assert IDS.name(USUAL).startswith("cmpl-r")
    assert IDS.name(USUAL).split("-")[2] == "0"
    assert IDS.name("3_chatcmpl-x-1f3a9c04").startswith("3_chatcmpl-r")


@pytest.mark.parametrize("mode", [HASH, DROP])
def test_an_engine_writes_no_id(probe: Probe, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    hidden(monkeypatch, mode)
    recorder.record(
        MOMENT_CODE["matched"], LEG_CODE["prefill"], USUAL, 0, 3, recorder.text("10.0.0.9:5600"), peer="d-id"
    )
    raw, pairs = drained(probe)
    for word in (USUAL, "billing", "1f3a9c04", "d-id"):
        assert word.encode() not in written(probe)
    key = Ids((probe.run_dir / MADE).read_bytes(), mode).told(USUAL)[1]
    assert raw[16:32] == key != encoded(USUAL)[1]
    told = dict(pairs)
    assert told[encoded("10.0.0.9:5600")[1]] == "10.0.0.9:5600", "an engine's name is no id"
    assert told[key].startswith("cmpl-r")
    recorder.describe({"engine": "p0"})
    assert probe.ring().started == {"engine": "p0", "ids": mode}


def test_a_text_that_is_an_id_too_is_told_as_both(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden(monkeypatch, HASH)
    recorder.record(1, 1, "p0", v0=recorder.text("p0"))
    _, pairs = drained(probe)
    assert sorted(text for _, text in pairs) == sorted(("p0", Ids((probe.run_dir / MADE).read_bytes()).name("p0")))


def test_an_error_s_words_are_kept_to_itself(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden(monkeypatch, HASH)
    recorder.record(1, 1, "x")
    for _ in range(200):
        recorder.fault(KeyError(USUAL))
    assert USUAL.encode() not in written(probe)
    assert "KeyError" in probe.ring().header.self_off


def test_processes_of_one_host_have_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ids_module.MODE, HASH)
    found: list[Ids | None] = []
    gate = threading.Barrier(8)

    def begin() -> None:
        gate.wait()
        found.append(from_environment(tmp_path))

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each.name(USUAL) for each in found if each}) == 1
    assert [path.name for path in tmp_path.iterdir()] == [MADE]
    assert (tmp_path / MADE).stat().st_mode & 0o777 == 0o600


def test_a_key_of_one_s_own_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"s" * 40)
    key.chmod(0o600)
    monkeypatch.setenv(ids_module.MODE, HASH)
    monkeypatch.setenv(ids_module.KEY_FILE, str(key))
    found = from_environment(tmp_path / "run")
    assert found is not None
    assert found.told(USUAL) == Ids(b"s" * 40).told(USUAL)
    monkeypatch.setenv(ids_module.MODE, DROP)
    with pytest.raises(ValueError, match="KVSCOPE_IDS=drop takes no key"):
        from_environment(tmp_path / "run")


def test_as_they_are_unless_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for given_mode in ("", KEEP):
        monkeypatch.setenv(ids_module.MODE, given_mode)
        assert from_environment(tmp_path) is None
    monkeypatch.setenv(ids_module.MODE, "hsah")
    with pytest.raises(ValueError, match="KVSCOPE_IDS is keep, hash or drop, not hsah"):
        from_environment(tmp_path)


def test_where_it_cannot_be_done_nothing_is_recorded(
    probe: Probe, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    hidden(monkeypatch, HASH)
    monkeypatch.setenv(ids_module.KEY_FILE, str(probe.run_dir / "none"))
    recorder.record(1, 1, USUAL)
    assert list_rings(probe.run_dir) == []
    assert f"the key {probe.run_dir / 'none'} cannot be read: no such file or directory" in capfd.readouterr().err


def test_a_key_that_is_none(tmp_path: Path) -> None:
    short, open_to_all, pipe = (tmp_path / name for name in ("short", "open", "pipe"))
    short.write_bytes(b"k" * (LEAST_BYTES - 1))
    short.chmod(0o600)
    open_to_all.write_bytes(b"k" * 32)
    open_to_all.chmod(0o644)
    os.mkfifo(pipe, 0o600)
    for path, reason in (
        (short, "has 15 bytes; make one of at least 16"),
        (open_to_all, "everybody on this host can read the key"),
        (pipe, "is not a file"),
        (tmp_path, "is a directory"),
        (tmp_path / "none", "no such file"),
    ):
        with pytest.raises(ValueError, match=reason):
            read_key(path)


def hidden(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """As in a process that was started so."""
    monkeypatch.setenv(ids_module.MODE, mode)
    monkeypatch.delenv(ids_module.KEY_FILE, raising=False)
    monkeypatch.setattr(recorder, "IDS_KEPT", False)


def drained(probe: Probe) -> tuple[bytes, list[tuple[bytes, str]]]:
    (segment,) = probe.ring().segments()
    return segment.drain(0)[0], segment.drain_texts(0)[0]


def written(probe: Probe) -> bytes:
    return probe.ring().path.read_bytes()
