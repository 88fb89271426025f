"""Telling what other projects' routers write from everything else, by how it begins, and reading it."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, cast

import numpy as np

from kvscope.model.errors import InputError
from kvscope.model.events import EVENT, Events
from kvscope.sources.routers.dynamo import dynamo_log
from kvscope.sources.routers.llmd import llmd_log
from kvscope.sources.routers.log import RouterLog
from kvscope.sources.routers.placing import Placing

GZIP_MAGIC = b"\x1f\x8b"
START = 512
"""Bytes within which a file has to show what it is."""
_DYNAMO = re.compile(rb'\{\s*("timestamp"\s*:\s*\d+\s*,\s*"event"\s*:\s*\{\s*)?"schema"\s*:\s*"dynamo\.')
_SPANS = re.compile(rb'\{\s*"resourceSpans"\s*:')


def router_log(file: io.BufferedReader, name: str) -> RouterLog | None:
    """What a router wrote; None where it is something else: nothing was read then. InputError: it cannot be read."""
    if not file.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC):
        return _read(file, name)
    unpacked: io.BufferedReader = io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=file)))
    try:
        log = _read(unpacked, name)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise InputError(f"{name} is damaged: it cannot be unpacked; unpack what is whole with `gzip -dc`") from None
    if log is None:
        raise InputError(f"{name} is compressed, and is no request trace of Dynamo's; unpack it with `gzip -d`")
    return log


def begins_as_log(file: io.BufferedReader) -> bool:
    """Whether it begins, unpacked, as routers' files do, whatever is in it."""
    start = _start(file)
    return bool(_DYNAMO.match(start) or _SPANS.match(start))


def _start(file: io.BufferedReader) -> bytes:
    return file.peek(START)[:START].removeprefix(codecs.BOM_UTF8).lstrip()


def _read(file: io.BufferedReader, name: str) -> RouterLog | None:
    start = _start(file)
    if _DYNAMO.match(start):
        broken: list[str] = []
        log = dynamo_log(_lines(file, name, broken), name)
        log.notes += broken
        return log
    if _SPANS.match(start):
        return llmd_log(_text(file.read().removeprefix(codecs.BOM_UTF8), name), name)
    return None


def _lines(file: IO[bytes], name: str, broken: list[str]) -> Iterator[str]:
    """Lines, up to where the file breaks off: a router that still writes has not ended what it packs."""
    number = 0
    try:
        for number, line in enumerate(file, 1):
            yield _text(line.removeprefix(codecs.BOM_UTF8) if number == 1 else line, f"{name}:{number}")
    except (gzip.BadGzipFile, EOFError, zlib.error):
        if not number:
            raise
        broken.append(f"{name} was not ended: it is still being written, or was cut; what it holds until there is used")


def _text(raw: bytes, where: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise InputError(f"{where} is not UTF-8; write it anew") from None


def placed(logs: Sequence[RouterLog], played: Callable[[], Iterator[Events]]) -> tuple[Events, list[str]]:
    """The logs' requests as moments on the engines' clocks, and sentences on them. `played` goes through the engines'
    events from the beginning, part by part, each time it is called."""
    if not logs:
        return Events(np.empty(0, EVENT), (), {}), []
    placing, satisfied = Placing(logs), False
    while not satisfied:
        for events in played():
            placing.take(events)
        satisfied = placing.satisfied()
    return placing.placed()


def alone(logs: Sequence[RouterLog]) -> InputError:
    """What to tell a person who named a router's files and nothing else."""
    names = ", ".join(log.name for log in logs)
    return InputError(f"{names} tells a router's side alone; name the recording of the engines behind it, too")
