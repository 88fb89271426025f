"""Sampled stacks as slices below the threads that they are of: what a thread did, and where in the code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path

import numpy as np

from kvscope.export.perfetto import fields
from kvscope.export.perfetto.names import TEXTS
from kvscope.export.perfetto.packets import Arg, Look, Packets
from kvscope.export.perfetto.places import DOING, STACK, Places
from kvscope.model.events import Process
from kvscope.probe.vocabulary import THREAD_CODE
from kvscope.stacks.doing import doings, parted
from kvscope.stacks.reading import Stacks, Thread
from kvscope.stacks.session import STACKS
from kvscope.stacks.speedscope import GONE

HOST = 8
"""Characters of a boot id that name a host."""
DEEPEST = 200
"""Frames of a stack that are drawn, the outermost first."""
Frame = tuple[str, str]
"""Function and file; the line within the function changes too often to be one slice."""


def beside(files: Sequence[str]) -> list[Path]:
    """The stacks that lie in the folders of recordings."""
    folders = (Path(file) if Path(file).is_dir() else Path(file).parent for file in files)
    return [folder / STACKS for folder in dict.fromkeys(folders) if (folder / STACKS).is_file()]


class Samples:
    """Draws stacks."""

    def __init__(self, packets: Packets, places: Places) -> None:
        self._packets, self._places = packets, places
        self.drawn = 0
        """Samples drawn."""

    def draw(self, stacks: Stacks, first: int, last: int) -> None:
        """Those from `first` to `last`, ns on the axis of the trace, of processes that the recording knows."""
        codes, words = doings(stacks)
        for number in np.unique(stacks.samples["thread"]).tolist():
            process = self._process(stacks.threads[number], stacks.boot_id[:HOST])
            if process is None:
                continue
            t = self._places.moved(np.array([process]), stacks.samples["t"])
            mine = np.flatnonzero((stacks.samples["thread"] == number) & (t >= first) & (t <= last))
            if len(mine):
                self._draw(process, stacks.select(mine), [words[code] for code in codes[mine].tolist()])

    def _process(self, thread: Thread, host: str) -> int | None:
        def is_it(process: Process) -> bool:
            return process.pid == thread.pid and process.host in ("", host)

        return next((number for number, process in enumerate(self._places.processes) if is_it(process)), None)

    def _draw(self, process: int, stacks: Stacks, doing: list[str]) -> None:
        """All samples of one thread, and what it did at each."""
        thread = stacks.threads[int(stacks.samples["thread"][0])]
        role = THREAD_CODE.get(thread.role, 0)
        begin = stacks.samples["t"]
        until = np.minimum(np.append(begin[1:], begin[-1] + stacks.period_ns), begin + GONE * stacks.period_ns)
        begin, until = (self._places.moved(np.array([process]), t) for t in (begin, until))
        self.drawn += len(begin)
        stack = [stacks.frames[index] for index in stacks.samples["stack"].tolist()]
        for part, frames in ((DOING, [((what, ""),) for what in doing]), (STACK, list(map(_frames, stack)))):
            track = self._places.sampled(process, role, thread.tid, thread.name, part)
            self._put(track, lasting(frames, begin.tolist(), until.tolist()), part.name)

    def _put(self, track: int, found: list[tuple[int, int, Frame]], category: str) -> None:
        if not found:
            return  # a thread that was never seen in Python
        begin, end = np.array([each[:2] for each in found], np.int64).T
        known = {frame: number for number, frame in enumerate(dict.fromkeys(frame for _, _, frame in found))}
        which = np.array([known[frame] for _, _, frame in found])
        file = self._packets.names.numbers(TEXTS, [file for _, file in known])[which]
        told = np.array([bool(file) for _, file in known])[which]
        label = self._packets.named([function for function, _ in known], which)
        look = Look(category, label, [Arg("file", file, told, fields.ARG_TEXT_IID)])
        self._packets.slices(np.full(len(begin), track), begin, end, look)


@cache
def _frames(stack: tuple[str, ...]) -> tuple[Frame, ...]:
    return tuple(map(parted, stack[:DEEPEST]))


def lasting(stacks: Sequence[tuple[Frame, ...]], begin: list[int], until: list[int]) -> list[tuple[int, int, Frame]]:
    """(begin, end, frame) of all that lasts from one sample to the next, outer frames before those in them. Samples of
    one thread, by time; each stands for the time from its `begin` to `until`."""
    found: list[tuple[int, int, int, Frame]] = []
    open_: list[tuple[int, Frame]] = []
    ended = 0
    for stack, t, then in zip(stacks, begin, until, strict=True):
        same = _alike(open_, stack) if t <= ended else 0
        found += [(since, min(t, ended), depth, frame) for depth, (since, frame) in enumerate(open_) if depth >= same]
        open_[same:] = [(t, frame) for frame in stack[same:]]
        ended = then
    found += [(since, ended, depth, frame) for depth, (since, frame) in enumerate(open_)]
    found.sort(key=lambda one: (one[0], one[2]))
    return [(since, end, frame) for since, end, _, frame in found if end > since]


def _alike(open_: list[tuple[int, Frame]], stack: tuple[Frame, ...]) -> int:
    alike = (frame == other for (_, frame), other in zip(open_, stack, strict=False))
    return sum(takewhile(bool, alike))
