"""`kvscope share` as people call it: what it says, and what it makes of input that cannot be used."""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kvscope.probe.recording import HeadPart, parts
from kvscope.sources import open_sources
from kvscope.sources.opening import RING_MAGIC
from kvscope.sources.past import open_past

REAL = Path("docs/pictures/push-early.kvs").resolve()


def share(*words: object, **more: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kvscope", "share", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload,no-any-return]


def refused(done: subprocess.CompletedProcess[str], reason: str) -> None:
    assert done.returncode == 2
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""


def key(folder: Path, size: int = 32, mode: int = 0o600) -> Path:
    path = folder / "key"
    path.write_bytes(b"k" * size)
    path.chmod(mode)
    return path


def test_it_says_what_is_still_in_there(tmp_path: Path) -> None:
    out = tmp_path / "out.kvs"
    done = share(REAL, "-o", out)
    assert done.returncode == 0, done.stderr
    for word in (
        "4,438 in",
        "hashed with a key that nobody has",
        "D1, P1",
        "vllm 0.32.0",
        "NixlPushConnector",
        "model1",
    ):
        assert word in done.stdout, word
    for word in ("start_ticks", "realtime_ns", "wall_ns", "offset_ns", "traceparent"):
        assert word in done.stdout.split("dropped")[-1], word
    assert "What could still tell whose it is:" in done.stdout
    assert f"kvscope report {out}" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out.kvs"]
    assert out.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found


def test_what_one_keeps_is_said(tmp_path: Path) -> None:
    kept = ("--ids", "keep", "--keep", "model", "--keep-time", "--key-file", key(tmp_path))
    done = share(REAL, "-o", tmp_path / "out.kvs", *kept)
    assert "lab" in done.stdout.split("models")[1].split("\n")[0]
    warned = done.stdout.split("What could still tell")[1]
    for word in (
        "the model, which you kept",
        "the time of day, which you kept",
        "request ids, which you kept",
        "the key",
    ):
        assert word in warned, word


def test_every_reading_verb_reads_it(tmp_path: Path) -> None:
    out = tmp_path / "out.kvs"
    assert share(REAL, "-o", out).returncode == 0
    opened = open_sources([out])
    some = next(text for text in opened.events.texts.values() if text.startswith("cmpl-"))
    for words in (
        ("report", out),
        ("report", "--json", out),
        ("request", some.split("-")[1], out),
        ("top", "--once", "--replay", out),
        ("export", "--jsonl", tmp_path / "out.jsonl", out),
    ):
        command = [sys.executable, "-m", "kvscope", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stderr)
    again = share(out, "-o", tmp_path / "again.kvs")
    assert again.returncode == 0


def test_a_folder_of_parts_becomes_one(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    raw = REAL.read_bytes()
    shutil.copy(REAL, folder / "part-000001.kvs")
    (folder / "part-000002.kvs").write_bytes(raw[:3])
    (folder / "part-000003.kvs").write_bytes(b"no recording at all")
    (folder / "stacks.jsonl").write_text('{"stacks": 1}\n')
    done = share(folder, "-o", tmp_path / "out.kvs")
    assert done.returncode == 0
    assert "part-000002.kvs holds nothing" in done.stderr
    assert "part-000003.kvs is neither a recording nor JSON lines" in done.stderr
    assert f"{folder / 'stacks.jsonl'} was left out; --stacks shares it, too" in done.stderr
    assert len(open_sources([tmp_path / "out.kvs"]).events) == len(open_sources([REAL]).events)


def test_what_is_cut_is_shared_as_far_as_it_is_whole(tmp_path: Path) -> None:
    cut, out = tmp_path / "cut.kvs", tmp_path / "out.kvs"
    cut.write_bytes(REAL.read_bytes()[:90_000])
    done = share(cut, "-o", out)
    assert done.returncode == 0
    assert f"{cut} was not ended" in done.stderr
    opened = open_sources([out])
    assert len(opened.events) == len(open_sources([cut]).events) > 1000
    assert [note for note in opened.notes if "was not ended" in note]


def test_what_is_damaged_is_shared_without_the_damaged_parts(tmp_path: Path) -> None:
    raw = bytearray(REAL.read_bytes())
    for at in range(20_000, 120_000, 20_000):
        raw[at] ^= 0xFF
    bad, out = tmp_path / "bad.kvs", tmp_path / "out.kvs"
    bad.write_bytes(raw)
    done = share(bad, "-o", out)
    assert done.returncode == 0
    assert "bad.kvs is damaged: 5 of its parts cannot be read" in done.stderr
    assert len(open_sources([out]).events) == len(open_sources([bad]).events)


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    out = tmp_path / "out.kvs"
    lines, empty, text, pipe = (tmp_path / name for name in ("lines.jsonl", "empty", "text", "pipe"))
    lines.write_text(json.dumps({"version": 1}) + "\n")
    empty.touch()
    text.write_text("not a recording")
    os.mkfifo(pipe)
    (tmp_path / "empty-folder").mkdir()
    for name in ("tables", "rings"):
        (tmp_path / name).mkdir()
    for name in ("export.json", "events.parquet"):
        (tmp_path / "tables" / name).write_bytes(b"PAR1" * 10)
    (tmp_path / "rings" / "1.ring").write_bytes(RING_MAGIC * 100)
    (tmp_path / "dynamo").write_text('{"schema": "dynamo.request.trace.v1"}\n')
    (tmp_path / "dynamo.gz").write_bytes(gzip.compress((tmp_path / "dynamo").read_bytes()))
    (tmp_path / "llmd").write_text('{"resourceSpans": []}\n')
    for path, reason in (
        (tmp_path / "none.kvs", "there is no"),
        (lines, "is JSON lines; only recordings can be shared"),
        (empty, "is empty"),
        (text, "is neither a recording nor JSON lines"),
        (pipe, "has to be a file"),
        ("-", "has to be a file"),
        (tmp_path / "empty-folder", "holds no recording"),
        (tmp_path / "tables", "is a Parquet export; only recordings can be shared"),
        (tmp_path / "tables" / "events.parquet", "is a table of a Parquet export; only recordings can be shared"),
        (tmp_path / "rings", "holds rings; only recordings can be shared: `kvscope dump -o FILE` makes one"),
        (tmp_path / "rings" / "1.ring", "is one process's ring file; only recordings can be shared: `kvscope dump"),
        (tmp_path / "dynamo", "is what a router wrote"),
        (tmp_path / "dynamo.gz", "is what a router wrote"),
        (tmp_path / "llmd", "is what a router wrote"),
    ):
        refused(share(path, "-o", out, timeout=60), reason)
        assert not out.exists()


def test_a_recording_without_anything_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nothing.kvs"
    path.write_bytes(REAL.read_bytes()[:16])
    refused(share(path, "-o", tmp_path / "out.kvs"), "ends before its first block of events does")
    assert [each.name for each in tmp_path.iterdir()] == ["nothing.kvs"]


def test_a_key_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path / "none", "cannot be read"),
        (key(tmp_path, size=3), "has 3 bytes; make one of at least 16"),
    ):
        refused(share(REAL, "-o", tmp_path / "out.kvs", "--key-file", path), reason)
    refused(share(REAL, "-o", tmp_path / "out.kvs", "--key-file", key(tmp_path, mode=0o604)), "everybody on this host")


def test_what_is_there_stays_unless_forced(tmp_path: Path) -> None:
    out = tmp_path / "out.kvs"
    out.write_text("mine")
    refused(share(REAL, "-o", out), "is there already")
    assert out.read_text() == "mine"
    refused(share(REAL, "-o", tmp_path), "is a directory")
    refused(share(REAL, "-o", "-"), "has to be a file")
    refused(share(REAL, "-o", tmp_path / "no" / "out.kvs"), "cannot write")
    assert share(REAL, "-o", out, "--force").returncode == 0
    assert open_sources([out]).events


def test_the_recording_itself_is_never_replaced_by_what_is_made_of_it(tmp_path: Path) -> None:
    path = tmp_path / "it.kvs"
    shutil.copy(REAL, path)
    refused(share(path, "-o", path, "--force"), "is what is shared")
    assert path.read_bytes() == REAL.read_bytes()


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("unshare"), reason="the superuser may write anywhere")
def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    if os.geteuid() == 0:
        mount = f"mount -t tmpfs -o ro none {folder}"
        command = ["unshare", "-m", "sh", "-ec", f'{mount}; exec "$@"', "sh", sys.executable, "-m", "kvscope", "share"]
        done = subprocess.run([*command, REAL, "-o", folder / "out.kvs"], capture_output=True, text=True, check=False)
        if "mount" in done.stderr:
            pytest.skip("nothing may be mounted here")
    else:
        done = share(REAL, "-o", folder / "out.kvs")
    refused(done, "cannot write")


def _small() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    refused(share(REAL, "-o", tmp_path / "out.kvs", preexec_fn=_small), "nothing was left there")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_older_file(tmp_path: Path) -> None:
    there = tmp_path / "out.kvs"
    there.write_text("mine")
    refused(share(REAL, "-o", there, "--force", preexec_fn=_small), "the older file stays there; name another file")
    assert there.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [there]


def test_readers_say_that_sizes_are_rounded(tmp_path: Path) -> None:
    out = tmp_path / "out.kvs"
    share(REAL, "-o", out)
    with open(out, "rb") as file:
        (head,) = [part.info for part in parts(file) if isinstance(part, HeadPart)]
    assert head["shared"] == "rounded"
    said = f"{out} was shared: sizes in it (tokens, blocks, bytes, descriptors) are rounded, by a ninth at most"
    assert open_sources([out]).notes == (said,)
    past = open_past([out], lambda share: None)
    past.close()
    assert past.notes == (said,)
    command = [sys.executable, "-m", "kvscope", "export", out, "--perfetto", tmp_path / "out.pftrace"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == f"kvscope: {said}"
