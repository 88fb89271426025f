"""Files that are gone through by time: recordings by an index, JSON lines and the rings of the dead from memory."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np

from kvscope.model.errors import InputError
from kvscope.model.events import Events, Process
from kvscope.sources.bytime import ByTime, Loaded, together
from kvscope.sources.folders import Member, members
from kvscope.sources.indexed import Index, Indexed
from kvscope.sources.opening import STDIN, is_recording, open_all
from kvscope.sources.parquet.manifest import is_export
from kvscope.sources.routers.log import RouterLog
from kvscope.sources.routers.reading import alone, placed, router_log

PART = 50_000
"""Events that are looked at at a time, where all are gone through."""
LINES_MOST = 50_000_000
"""Bytes of JSON lines that are taken: they are held whole, and reading them takes up to three times their size."""


class Past:
    """All of some files together."""

    def __init__(self, sources: Sequence[ByTime], notes: tuple[str, ...] = ()) -> None:
        """`sources` must not be empty. `notes`: of files that are none of them."""
        self.sources, self.told = sources, notes
        self.begin = min(source.begin for source in sources)
        self.end = max(source.end for source in sources)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences: what was damaged, cut or unknown."""
        return (*(note for source in self.sources for note in source.notes), *self.told)

    def between(self, after: int, until: int) -> Events:
        """The events of (after, until], the texts that they name, and the processes that were there by `until`."""
        return together([source.between(after, until) for source in self.sources])

    def whole(self, after: int, until: int) -> Events:
        """As `between`, with every process, as it was known in the end: each has one number throughout."""
        return together([source.whole(after, until) for source in self.sources])

    def when(self, rows: np.ndarray) -> np.ndarray:
        """(n,) ns: where rows (dtype EVENT) of `whole` lie on the axis that is gone along."""
        return np.asarray(rows["t"])

    @property
    def processes(self) -> tuple[Process, ...]:
        """Every process, as it was known in the end."""
        return tuple(process for source in self.sources for process in source.processes)

    def settled(self, found: np.ndarray) -> tuple[tuple[Process, ...], tuple[str, ...]]:
        """(every process, notes), once all was gone through. found: (processes,) events of each."""
        processes, notes = list[Process](), list[str]()
        for source in self.sources:
            more, said = source.settled(found[len(processes) : len(processes) + len(source.processes)])
            processes, notes = [*processes, *more], [*notes, *said]
        return tuple(processes), (*notes, *self.told)

    @property
    def impossible(self) -> int:
        """Records whose time no event can have: they lie nowhere."""
        return sum(source.impossible for source in self.sources)

    def next_after(self, t: int) -> int | None:
        """When the next event is, or None if there is none."""
        found = [source.next_after(t) for source in self.sources]
        return min((t for t in found if t is not None), default=None)

    def reach(self, after: int, until: int, most: int) -> int:
        """The latest time up to `until` for which some `most` events have to be looked at; later than `after`."""
        pieces = self._pieces(after, until)
        pieces = pieces[np.argsort(pieces["first"], kind="stable")]
        over = np.flatnonzero((np.cumsum(pieces["count"]) > most) & (pieces["first"] > after + 1))
        return int(pieces["first"][over[0]]) - 1 if len(over) else until

    def since(self, after: int, until: int, most: int) -> int:
        """The earliest time from `after` on from which some `most` events have to be looked at."""
        pieces = self._pieces(after, until)
        pieces = pieces[np.argsort(-pieces["last"], kind="stable")]
        over = np.flatnonzero((np.cumsum(pieces["count"]) > most) & (pieces["last"] < until))
        return max(after, int(pieces["last"][over[0]])) if len(over) else after

    def _pieces(self, after: int, until: int) -> np.ndarray:
        return np.concatenate([source.pieces(after, until) for source in self.sources])

    def close(self) -> None:
        """Let go of the files."""
        for source in self.sources:
            source.close()


def open_past(paths: Sequence[Path | str], told: Callable[[float], None]) -> Past:
    """Go through the files once; `told` hears how far that is, 0 to 1. InputError: one cannot be read, or nothing is
    in them."""
    found = members(paths)
    _allow_files(len(found))
    total, before = sum(member.size for member in found) or 1, 0
    index, sources, logs = Index(), list[ByTime](), list[RouterLog]()
    try:
        for member in found:
            loaded = _taken(index, logs, member, partial(_share, told, before, total))
            sources += [loaded] if loaded else []
            before += member.size
        # As everywhere where several are read together: recordings first.
        sources = [*([Indexed(index)] if index.files else []), *sources]
    except BaseException:
        index.close()
        raise
    if not sources:
        nothing = "there is nothing to replay; name a recording (`kvscope record -o FILE` makes one)"
        raise alone(logs) if logs else InputError("; ".join((*index.notes, nothing)))
    notes = () if index.files else tuple(index.notes)
    if not logs:
        return Past(sources, notes)
    moments, told_of = placed(logs, partial(_played, Past(sources)))
    beside = [Loaded(moments)] if len(moments) else []
    return Past([*sources, *beside], (*notes, *told_of))


def _played(past: Past) -> Iterator[Events]:
    """All of it, in parts."""
    at = past.begin - 1
    while at < past.end:
        until = past.reach(at, past.end, PART)
        yield past.between(at, until)
        at = until


def _allow_files(wanted: int) -> None:
    """All stay open: let there be as many as the system allows, where it takes more than usual."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if wanted > soft // 2:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _share(told: Callable[[float], None], before: int, total: int, read: int) -> None:
    told((before + read) / total)


def _taken(index: Index, logs: list[RouterLog], member: Member, told: Callable[[int], None]) -> ByTime | None:
    """What is a source of its own; None for a recording, which goes into the index."""
    if empty := member.why_empty:
        index.notes.append(empty)
        return None
    try:
        return _opened(index, logs, member.path, told)
    except InputError as error:
        if not member.part:
            raise
        index.notes.append(f"left out: {error}")
        return None


def _opened(index: Index, logs: list[RouterLog], path: str, told: Callable[[int], None]) -> ByTime | None:
    if path == STDIN or (Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()):
        what = "standard input" if path == STDIN else path
        raise InputError(f"{what} cannot be replayed: it cannot be gone back in; write it to a file first")
    if Path(path).is_dir():
        return _folder(path)
    try:
        file = open(path, "rb")  # noqa: SIM115 - a recording stays open
    except FileNotFoundError:
        raise InputError(f"there is no {path}; name a recording or JSON lines") from None
    with ExitStack() as stack:
        stack.enter_context(file)
        log = router_log(file, path)
        if log is not None:
            logs.append(log)
            return None
        if not is_recording(file, path):
            return _lines(path)
        index.add(file, path, told)
        stack.pop_all()
    return None


def _folder(path: str) -> ByTime:
    if not is_export(Path(path)):
        return _loaded(path)
    from kvscope.sources.parquet.stored import Stored  # pyarrow is loaded where such a folder is met

    return Stored(Path(path))


def _lines(path: str) -> Loaded:
    size = Path(path).stat().st_size
    if size > LINES_MOST:
        raise InputError(
            f"{path} holds {size / 1e6:,.0f} MB of JSON lines, and a replay holds up to {LINES_MOST / 1e6:.0f} MB of"
            " them in memory; cut it to the minutes that matter, or see all of it with `kvscope report`"
        )
    return _loaded(path)


def _loaded(path: str) -> Loaded:
    opened = open_all([path], None)
    if not len(opened.events):
        raise InputError(f"there is no event in {path}; name another file")
    return Loaded(opened.events, opened.notes)
