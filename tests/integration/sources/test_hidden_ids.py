"""Request ids hidden while they are recorded: by the engine's own process, and by whoever reads its rings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kvscope.probe.ids import MADE, Ids
from kvscope.probe.reader import list_rings
from kvscope.sources import open_sources
from kvscope.sources.past import open_past

from .conftest import Start


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(b"k" * 32)
    path.chmod(0o600)
    return path


def ran(module: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", module, *words], capture_output=True, check=False)


def ids_in(path: Path) -> set[str]:
    opened = open_sources([path])
    assert opened.notes == ()
    keys = {int(key) for key in opened.events.rows["request"]} - {0}
    assert keys <= opened.events.texts.keys()
    return {opened.events.texts[key] for key in keys}


def plain_ids(run_dir: Path) -> set[str]:
    return {
        text for ring in list_rings(run_dir) for segment in ring.segments() for _, text in segment.drain_texts(0)[0]
    }


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("kvscope", ("dump", "-o")),
        ("kvscope", ("record", "--for", "200ms", "-o")),
        ("kvscope", ("record", "--for", "200ms", "--part-size", "1MB", "-o")),
        ("kvscope.probe", ("dump",)),
    ],
)
def test_with_a_key_ids_are_what_it_makes_of_them(
    run_dir: Path, start: Start, tmp_path: Path, key: Path, module: str, words: tuple[str, ...]
) -> None:
    start("p0").tell("write 200")
    path = tmp_path / "it.kvs"
    done = ran(module, *words, str(path), "--ids", "hash", "--ids-key", str(key))
    assert done.returncode == 0, done.stderr
    assert ids_in(path) == {Ids(b"k" * 32).name(text) for text in plain_ids(run_dir)}


def test_dropped_ones_are_never_the_same_twice(run_dir: Path, start: Start, tmp_path: Path) -> None:
    start("p0").tell("write 200")
    found = []
    for name in ("one", "other"):
        assert ran("kvscope", "dump", "--ids", "drop", "-o", str(tmp_path / name)).returncode == 0
        found.append(ids_in(tmp_path / name))
    assert not found[0] & found[1]
    assert not (found[0] | found[1]) & plain_ids(run_dir)
    assert len(found[0]) == len(plain_ids(run_dir))


@pytest.mark.parametrize("modes", [("keep", "hash"), ("drop", "drop")])
def test_requests_under_two_names_are_said_to_count_twice(
    run_dir: Path, start: Start, tmp_path: Path, modes: tuple[str, str]
) -> None:
    start("p0").tell("write 200")
    for at, mode in enumerate(modes):
        assert ran("kvscope", "dump", "--ids", mode, "-o", str(tmp_path / f"{at}.kvs")).returncode == 0
    paths = [tmp_path / f"{at}.kvs" for at in range(2)]
    (note,) = open_sources(paths).notes
    assert note.startswith("some 200 records are in more than one source, under ids written in different ways")
    past = open_past(paths, lambda share: None)
    past.close()
    assert past.notes == (note,)


@pytest.mark.parametrize("mode", ["hash", "drop"])
def test_an_engine_never_writes_them(
    run_dir: Path, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("KVSCOPE_IDS", mode)
    for engine in ("p0", "d0"):
        start(engine).tell("write 200")
    raw = b"".join(path.read_bytes() for path in run_dir.glob("*.ring"))
    assert b"request" not in raw
    hidden = Ids((run_dir / MADE).read_bytes())
    path = tmp_path / "it.kvs"
    assert ran("kvscope", "dump", "-o", str(path)).returncode == 0
    assert {process.started["ids"] for process in open_sources([path]).events.processes} == {mode}
    assert ids_in(path) == {hidden.name(f"{engine}-request-{n}") for engine in ("p0", "d0") for n in range(20)}


def test_what_cannot_be_is_one_sentence(run_dir: Path, start: Start, tmp_path: Path, key: Path) -> None:
    start("p0").tell("write 2")
    key.chmod(0o644)
    path = tmp_path / "it.kvs"
    for words, reason in (
        (("--ids", "hash", "--ids-key", str(key)), f"everybody on this host can read the key {key}"),
        (("--ids-key", str(key)), "a key is for hashed ids: these are to be kept"),
        (("--ids", "drop", "--ids-key", str(key)), "a key is for hashed ids: these are to be dropped"),
    ):
        for module, verb in (("kvscope", ("dump", "-o", str(path))), ("kvscope.probe", ("dump", str(path)))):
            done = ran(module, *verb, *words)
            assert done.returncode == 2
            assert reason.encode() in done.stderr
            assert done.stderr.count(b"\n") == 1
            assert not path.exists()
