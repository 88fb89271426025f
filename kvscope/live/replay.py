"""What was recorded, as if it happened now: played, held, stepped through, faster or slower than it was."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kvscope.core.stream import SECOND
from kvscope.live.feed import Batch, Flow, no_events
from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.sources.harmless import impairing
from kvscope.sources.past import Past, open_past

SPEEDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
STRIDE_S = 0.25
"""A step, unless told otherwise."""
WINDOW_NS = 120 * SECOND
"""What is given again after a jump, so that the picture is whole."""
MOST = 150_000
"""Events looked at for one batch, roughly: 50 MB while it is made."""
EVER = -(2**62)
TAIL_NS = SECOND
"""How long time goes on after the last event: what was read last settles."""
SILENCE_NS = 30 * SECOND
"""While it plays, a longer time without any event is passed over, up to a second before the next one."""
# Where more happened than one batch may hold, time passes more slowly than it was asked to.


@dataclass(frozen=True)
class Place:
    """Where a replay is."""

    position_s: float
    """since the first event"""
    length_s: float
    speed: float
    playing: bool


@dataclass
class _Wish:
    """What whoever watches asks for, between two polls. Times are ns since the first event."""

    speed: float = 1.0
    playing: bool = True
    to: float | None = None
    by: float = 0.0
    """Beyond `to`, or where it is."""


class Replay:
    """A feed over recordings and JSON lines. Its controls may be used from any thread; they take effect at the next
    poll. Files are gone through once before it begins, in a thread: until then batches are empty and say how far
    that is."""

    def __init__(self, paths: Sequence[Path | str], clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds, what plays it."""
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        self.name = f"{Path(paths[0]).name if paths else 'nothing'}{more}"
        self._paths, self._clock = list(paths), clock
        self._lock = threading.Lock()
        self._wish = _Wish()
        self._past: Past | None = None
        self._error: InputError | None = None
        self._read, self._closing = 0.0, threading.Event()
        self._polled = clock()
        self._at: int | None = None
        """ns since the first event: up to here all was given. None: nothing was."""
        self._opening = threading.Thread(target=self._open, name="kvscope-replay", daemon=True)
        self._opening.start()

    def play(self) -> None:
        """Go on; at the end, begin again."""
        with self._lock:
            self._wish.playing = True
            if self._at is not None and self._at >= self._last:
                self._wish.to, self._wish.by = 0.0, 0.0

    def pause(self) -> None:
        """Stand still."""
        with self._lock:
            self._wish.playing = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """What passes in here does not count: whoever plays it stands still as well."""
        with self._lock:
            playing, self._wish.playing = self._wish.playing, False
        try:
            yield
        finally:
            with self._lock:
                self._polled, self._wish.playing = self._clock(), playing

    def step(self, seconds: float = STRIDE_S) -> None:
        """Stand still that much later, or, below 0, earlier."""
        self.pause()
        self.skip(seconds)

    def seek(self, seconds: float) -> None:
        """Jump to so long after the first event; beyond the end is the end."""
        with self._lock:
            self._wish.to, self._wish.by = seconds * SECOND, 0.0

    def skip(self, seconds: float) -> None:
        """Jump by that much, back if below 0."""
        with self._lock:
            self._wish.by += seconds * SECOND

    def set_speed(self, speed: float) -> None:
        """How many seconds pass in one. InputError: out of bounds."""
        if not SPEEDS[0] <= speed <= SPEEDS[-1]:
            raise InputError(f"a speed of {speed:g} is out of bounds; choose between {SPEEDS[0]:g} and {SPEEDS[-1]:g}")
        with self._lock:
            self._wish.speed = speed

    def faster(self) -> None:
        """The next of `SPEEDS`."""
        self.set_speed(next((speed for speed in SPEEDS if speed > self._wish.speed), SPEEDS[-1]))

    def slower(self) -> None:
        """The one before."""
        self.set_speed(next((speed for speed in reversed(SPEEDS) if speed < self._wish.speed), SPEEDS[0]))

    @property
    def place(self) -> Place | None:
        """Where it is; None before it begins."""
        past = self._past
        if past is None:
            return None
        length = past.end - past.begin
        with self._lock:
            wish = self._wish
            return Place(min(self._at or 0, length) / SECOND, length / SECOND, wish.speed, wish.playing)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the files have been gone through, or so long; returns whether they have."""
        self._opening.join(seconds)
        return not self._opening.is_alive()

    def poll(self) -> Batch:
        """What happened since the last poll. InputError: the files cannot be replayed, or not any further."""
        if self._error:
            raise self._error
        try:
            return self._next()
        except InputError:
            raise
        except Exception as error:
            raise self._refusal(error) from error

    def _next(self) -> Batch:
        past = self._past
        if past is None:
            self._polled = self._clock()
            return Batch(no_events(), 0, flow=Flow.REPLAY, remark=f"reading {self.name}: {self._read:.0%}")
        after, at, restart = self._bounds(past, *self._moved())
        events = past.between(after, past.begin + at)
        at = self._beyond_silence(past, events, at)
        with self._lock:
            self._at = at
        return self._batch(past, events, restart)

    def _moved(self) -> tuple[int | None, int, bool]:
        """(where it was, where it shall be, whether somebody wanted it there)."""
        with self._lock:
            wish, now = self._wish, self._clock()
            elapsed, self._polled = now - self._polled, now
            jump = wish.to is not None or wish.by != 0
            here = float(self._at or 0) if wish.to is None else wish.to
            passed = elapsed * wish.speed * SECOND if wish.playing and not jump and self._at is not None else 0
            wish.to, wish.by, by = None, 0.0, wish.by
            return self._at, round(min(max(here + by + passed, 0), self._last)), jump

    @staticmethod
    def _bounds(past: Past, before: int | None, to: int, jump: bool) -> tuple[int, int, bool]:
        """(after which ns of the events' clock, up to how long after the first event, whether all begins anew)."""
        if before is not None and to >= before:
            reached = past.reach(past.begin + before, past.begin + to, MOST) - past.begin
            if reached == to or not jump:
                return past.begin + before, reached, False
        first = past.begin + to - WINDOW_NS if to > WINDOW_NS else EVER
        return past.since(first, past.begin + to, MOST), to, True

    def _beyond_silence(self, past: Past, events: Events, at: int) -> int:
        if len(events) or not self._wish.playing:
            return at
        following = past.next_after(past.begin + at)
        return at if following is None or following - past.begin - at <= SILENCE_NS else following - past.begin - SECOND

    def _batch(self, past: Past, events: Events, restart: bool) -> Batch:
        place = self.place
        assert place is not None
        now = past.begin + (self._at or 0)
        wall = next((each.wall_ns for each in reversed(events.processes) if each.wall_ns is not None), None)
        flow = Flow.ENDED if now - past.begin >= self._last else Flow.REPLAY if place.playing else Flow.PAUSED
        remark = (
            f"{clock_of(place.position_s, 0 if place.playing else 3)} of {clock_of(place.length_s)}, x{place.speed:g}"
        )
        until = past.end if now > past.end else None
        faults = impairing(past.notes)
        notes = tuple(note for note in past.notes if note not in faults)
        return Batch(events, now, wall, flow, remark, faults, notes, restart, until, past.begin)

    @property
    def _last(self) -> int:
        return self._past.end - self._past.begin + TAIL_NS if self._past else 0

    def _open(self) -> None:
        try:
            self._past = open_past(self._paths, self._told)
        except _Closed:
            pass
        except InputError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - whoever waits for the index would wait for ever
            self._error = self._refusal(error)

    def _refusal(self, error: Exception) -> InputError:
        """The sentence for whatever went wrong while the files were read."""
        refusal = InputError(f"{self.name} cannot be replayed: {reason_of(error)}")
        refusal.__cause__ = error
        return refusal

    def _told(self, read: float) -> None:
        self._read = read
        if self._closing.is_set():
            raise _Closed

    def save(self, folder: Path) -> str:
        """InputError: it is saved already."""
        raise InputError(f"what is shown is saved already, in {', '.join(map(str, self._paths))}")

    def close(self) -> None:
        """Let go of the files."""
        self._closing.set()
        self._opening.join(1)
        if self._past:
            self._past.close()


class _Closed(Exception):
    """Nobody waits for the index any more."""


def reason_of(error: Exception) -> str:
    """In one line, as a person may read it: what the system said, else what kind of fault it is."""
    if isinstance(error, MemoryError):
        return "there is not enough memory for it"
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename is not None else ""
        return f"{(error.strerror or str(error) or type(error).__name__).lower()}{where}"
    return " ".join(f"{type(error).__name__}: {error} (KVSCOPE_DEBUG=1 shows where)".split())


def clock_of(seconds: float, decimals: int = 0) -> str:
    """`0:07`, `12:05`, `1:02:07`; `0:07.250` with three decimals. What has not passed yet is not told."""
    whole, parts = divmod(int(seconds * 10**decimals), 10**decimals)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
    return f"{clock}.{parts:0{decimals}}" if decimals else clock
