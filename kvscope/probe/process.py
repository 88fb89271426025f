"""This process, as the probe knows it: its ring file once there is one, and what it says of itself."""

from __future__ import annotations

import itertools
import json
import sys
import threading
from time import monotonic_ns
from typing import Any

from kvscope.probe import layout, ring
from kvscope.probe.ids import Ids
from kvscope.probe.texts import encoded
from kvscope.probe.vocabulary import THREADS

ERRORS_ALLOWED = 100
RETRY_NS = 10 * 10**9
"""How long after a refusal the next event asks for room again. (Reading the clock is no system call.)"""

WORD = layout.HEADER_WORD
_pack_text = layout.TEXT_BODY.pack_into


class Keys(dict[str | tuple[str] | None, bytes]):
    """Texts this thread has told, each with its 16-byte key. Asking for the key of another tells it.

    A text is a request's id, and is told as `ids` has it; in a tuple it is something else, and is told as it is.
    Emptied after half a texts ring, so that it is bounded and every text in use is still in the ring.
    """

    __slots__ = ("_bodies", "_half", "_ids", "_left", "_most", "_sequences", "_take", "_untold")

    def __init__(self, texts: ring.Ring, untold: memoryview, ids: Ids | None = None) -> None:
        super().__init__({None: layout.NO_KEY})
        self._ids = ids
        self._take, self._bodies, self._sequences, self._untold = texts.take, texts.bodies, texts.sequences, untold
        self._most, self._half = texts.capacity - layout.GUARD, texts.capacity // 2
        self._left = self._half

    def __missing__(self, text: str | tuple[str]) -> bytes:
        if isinstance(text, tuple):
            raw, key = encoded(text[0])
        else:
            raw, key = encoded(text) if self._ids is None else self._ids.told(text)
        size = len(raw)
        chunks = size // layout.TEXT_CHUNK + 1
        self._left -= chunks
        if self._left < 0:
            self.clear()
            self[None], self._left = layout.NO_KEY, self._half - chunks
        if chunks == 1:  # as `_put` does, without the call: nearly every id comes this way
            sequence, at, word = self._take()
            _pack_text(self._bodies, at, key, 0, 1, size, 0, raw)
            self._sequences[word] = sequence
        else:
            self._put_long(key, raw, chunks)
        self[text] = key
        return key

    def _put_long(self, key: bytes, raw: bytes, chunks: int) -> None:
        if chunks > self._most:
            self._untold[0] += 1
            return
        size = layout.TEXT_CHUNK
        for chunk in range(chunks):
            self._put(key, chunk, chunks, raw[chunk * size : (chunk + 1) * size])

    def _put(self, key: bytes, chunk: int, chunks: int, part: bytes) -> None:
        sequence, at, word = self._take()
        _pack_text(self._bodies, at, key, chunk, chunks, len(part), 0, part)
        self._sequences[word] = sequence


class Seat:
    """A thread's place in the process file: a counter of what it could not record and, with room, two rings.

    Left to the next thread when the thread that holds it ends.
    """

    def __init__(self, file: ring.ProcessFile) -> None:
        self.file = file
        self.segment: ring.Segment | None = None
        self.ask_at = 0
        """When, if without rings, to ask for them: monotonic ns."""
        self._counter = file.take_counter()

    def refuse(self, events: int) -> None:
        """Count events that could not be recorded."""
        self.file.words[self._counter] += events

    def __del__(self) -> None:
        self.file.leave_counter(self._counter)
        if self.segment:
            self.segment.leave()


class Process:
    """One per process; a forked child makes its own, with what its parent had described."""

    def __init__(self, started: dict[str, Any], silent: bool = False) -> None:
        self._silent, self._said = silent, False
        self._files: list[ring.ProcessFile] = []
        self._open_at, self._hindrance = 0, ""
        self._missed: dict[int, int] = {}
        """thread -> its events from before there was a file: each thread adds to its own, so that none is uncounted."""
        self._telling = threading.Lock()
        self._started, self._untold = started, bool(started)
        self._errors = itertools.count(1)
        self._too_many = ERRORS_ALLOWED

    @property
    def file(self) -> ring.ProcessFile | None:
        """The process's ring file, once there is one."""
        return self._files[0] if self._files else None

    def child(self) -> Process:
        """The process that a fork made of this one."""
        for file in self._files:
            file.abandon()
        return Process(dict(self._started), self._silent)

    def on(self) -> bool:
        """Whether an event would be recorded now, room permitting."""
        return not self._silent and (self.file is None or bool(self.file.control[0]))

    def give(self, seat: Seat, thread: threading.Thread, role: int) -> None:
        """Give a seat its rings, if there is room now."""
        try:
            seat.segment = seat.file.segment(THREADS[role])
            seat.segment.name(thread, role)
        except OSError as error:
            seat.ask_at = monotonic_ns() + RETRY_NS
            reason = f"no room for the events of thread {thread.name}: {_words(error)}"
            seat.file.write_text(layout.NOTE_AT, layout.NOTE_BYTES, reason)
            self._say(f"{reason}; they are counted, not kept")

    def miss(self, events: int) -> None:
        """Count events for which there is no file; the file tells of them once there is one."""
        if self._silent:
            return
        thread = threading.get_ident()
        self._missed[thread] = self._missed.get(thread, 0) + events
        self._untold = True
        self._tell()

    def opened(self) -> ring.ProcessFile | None:
        """The file, made if need be. Threads that make one at once wait for nobody: the first one counts."""
        if self._files or self._silent or monotonic_ns() < self._open_at:
            return self.file
        directory = ring.default_run_dir()
        try:
            made = ring.ProcessFile(directory)
        except (OSError, ValueError) as error:
            self._open_at = monotonic_ns() + RETRY_NS
            self._hindrance = f"cannot record in {directory}: {_words(error)}"
            self._say(f"{self._hindrance}; this process goes on without, and tries again now and then")
            return None
        self._files.append(made)
        if self._files[0] is not made:
            made.remove()
        elif self._hindrance:
            made.write_text(layout.NOTE_AT, layout.NOTE_BYTES, f"recorded nothing at first: {self._hindrance}")
        self._tell()
        return self._files[0]

    def describe(self, info: dict[str, Any]) -> None:
        """Add to what the process says of itself; written now if there is a file, else when there is."""
        self._started.update(info)
        self._untold = True
        self._tell()

    def _tell(self) -> None:
        """Write `started` and what was missed if they have changed. Whoever is at it writes for all: nobody waits."""
        while self.file and self._untold and self._telling.acquire(blocking=False):
            try:
                self._untold = False
                room = layout.STARTED_BYTES - layout.STARTED_PREFIX_BYTES
                hidden = {"ids": self.file.ids.mode} if self.file.ids else {}
                self.file.write_started(fitted(self._started | hidden, room))
                self.file.write_missed(sum(list(self._missed.values())))
            finally:
                self._telling.release()

    def note(self, reason: str) -> None:
        """Say why this process is not instrumented, and be listed for it."""
        file = self.opened()
        if file:
            file.write_text(layout.NOTE_AT, layout.NOTE_BYTES, reason)

    def error(self, error: Exception) -> None:
        """Count an internal error; too many, and the probe is off until someone switches it on."""
        count, file = next(self._errors), self.file
        if file is None:
            return
        file.words[WORD["errors"]] = count
        if count >= self._too_many and file.control[0]:
            self._too_many = count + ERRORS_ALLOWED  # whoever switches it on again gets as many
            # Where ids are not to be written, no words of an error are: they may hold one.
            words = type(error).__name__ if file.ids else f"{type(error).__name__}: {error}"
            reason = f"{count} internal errors, the last one {words}"
            file.write_text(layout.SELF_OFF_AT, layout.SELF_OFF_BYTES, reason)
            file.words[WORD["self_off"]] = 1
            file.control[0] = 0
            self._say(f"switched itself off after {reason}")

    def _say(self, sentence: str) -> None:
        """One line on stderr, once in the life of the process."""
        if not self._said:
            self._said = True
            print(f"kvscope: {sentence}", file=sys.stderr, flush=True)


def fitted(info: dict[str, Any], room: int) -> bytes:
    """`info` as JSON of at most `room` bytes: its longest values go first, and `dropped` names them."""
    dropped: list[str] = []
    while True:
        whole = info | {"dropped": dropped} if dropped else info
        raw = json.dumps(whole, default=str).encode()
        if len(raw) <= room or not info:
            return raw[:room] if info or len(raw) <= room else b"{}"
        longest = max(info, key=lambda name: len(json.dumps(info[name], default=str)))
        dropped.append(str(longest))
        del info[longest]


def _words(error: Exception) -> str:
    """An error's reason without Python's trimmings."""
    return (isinstance(error, OSError) and error.strerror) or str(error)
