"""What a tracepoint calls: `record` and its few companions. Nothing here raises, blocks or waits.

An event costs no system call and takes no lock. Each thread writes to rings of its own, found through a
`threading.local`; the file is opened at the first event, because vLLM loads plugins in processes that
never record. What cannot be written is counted where a reader finds it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import struct
import threading
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Any, TypeAlias

from kvscope.probe import ids, layout
from kvscope.probe.process import Keys, Process, Seat
from kvscope.probe.texts import encoded
from kvscope.probe.vocabulary import THREAD_CODE, UNKNOWN

# The eight bytes of a key that stand for a text in a value slot, as `key64` reads them.
_low64 = struct.Struct("<q").unpack_from

# How threads that are not the main one are named by the engine, by how the name begins.
ROLE_OF_THREAD = {
    "nixl-push-writer": "writer",
    "vllm-nixl-handshake-initiator": "handshake",
    "nixl_handshake_listener": "listener",
}

# What `record` needs, in the order it unpacks it: control word, next place, bodies, sequences, keys, role.
State: TypeAlias = tuple[memoryview, Callable[[], tuple[int, int, int]], memoryview, memoryview, Keys, int]

SILENT = os.environ.get("KVSCOPE") == "off"
"""Then nothing is recorded, ever, and there is no file: patched files call tracepoints without the plugin too."""


IDS_KEPT = os.environ.get(ids.MODE, "") in ("", ids.KEEP)
"""Then an id and any other text are told alike, and share the keys."""


class Here(threading.local):
    """What the calling thread keeps of the recorder: its place and its role."""

    control: Sequence[int] = (0,) if SILENT else (1,)
    """`control[0]` is the cheap check before an event is made up: 0 if it would not be recorded. The control word
    itself, once there is a file."""
    state: State
    seat: Seat
    role: int


here = Here()
_process = Process({}, SILENT)
_main_role = 0


def _bound(local: Here = here, now: Callable[[], int] = monotonic_ns) -> Callable[..., None]:
    """Make `record` with everything it touches per event in closure cells, which are the fastest to reach."""
    body_size, absent, no_key = layout.BODY.size, UNKNOWN, layout.NO_KEY
    pack_all, pack_two, tail = layout.BODY.pack_into, layout.SHORT_BODY.pack_into, layout.SHORT_TAIL

    def record(
        moment: int,
        leg: int,
        request: str | None,
        t: int = 0,
        v0: int = absent,
        v1: int = absent,
        v2: int = absent,
        v3: int = absent,
        v4: int = absent,
        v5: int = absent,
        peer: str | None = None,
        state: int = 0,
        rank: int = 0,
        peer_rank: int = 0,
        step: int = 0,
        reason: int = 0,
        flags: int = 0,
    ) -> None:
        """Record a moment; codes and the meaning of v0..v5 are `vocabulary`'s, t is monotonic ns (0: now).

        Name what follows v5: it could be keyword-only but for the fifty ns that costs per event.
        """
        try:
            control, take, bodies, sequences, keys, thread = local.state
        except AttributeError:
            begun = _begin(1)
            if begun is None:
                return
            control, take, bodies, sequences, keys, thread = begun
        try:
            if not control[0]:
                return
            t = t or now()
            key = keys[request]
            peer_key = no_key if peer is None else keys[peer]
            sequence, at, word = take()
            # fmt: off
            try:
                if v2 is absent and v3 is absent and v4 is absent and v5 is absent:  # most moments: less to pack
                    pack_two(bodies, at, t, key, peer_key, moment, leg, thread, state, rank, peer_rank, step,
                             reason, flags, v0, v1, tail)
                else:
                    pack_all(bodies, at, t, key, peer_key, moment, leg, thread, state, rank, peer_rank, step,
                             reason, flags, v0, v1, v2, v3, v4, v5)
            except Exception as error:  # noqa: BLE001 - its place is taken: leave a void record, not a gap
                bodies[at : at + body_size] = bytes(body_size)
                fault(error)
            # fmt: on
            sequences[word] = sequence
        except Exception as error:  # noqa: BLE001 - nothing may leave a tracepoint
            fault(error)

    return record


def _nothing(*_args: object, **_fields: object) -> None:
    """What `record` is in a silent process."""


record = _nothing if SILENT else _bound()


def text(value: str | None) -> int:
    """Tell a text (an engine's name, say); returns what stands for it in a value slot, UNKNOWN for None or when off."""
    try:
        state = here.state
    except AttributeError:
        begun = _begin(0)
        if begun is None:
            return UNKNOWN
        state = begun
    try:
        if value is None or not state[0][0]:
            return UNKNOWN
        low: int = _low64(state[4][value if IDS_KEPT else (value,)])[0]
        return low
    except Exception as error:  # noqa: BLE001
        fault(error)
        return UNKNOWN


def key64(value: str) -> int:
    """The low 64 bits of a text's key, unsigned, as in an event's `request` column; `text` has the same bits."""
    return int.from_bytes(encoded(value)[1][:8], "little")


def fault(error: Exception) -> None:
    """Count an error in making up an event; too many switch the probe off."""
    with contextlib.suppress(Exception):
        _process.error(error)


def is_on() -> bool:
    """Whether an event would be recorded now, room permitting. True before the first event, unless silent."""
    return _process.on()


def describe(info: dict[str, Any]) -> None:
    """Add to `started`, what the process says of itself. Opens no file: kept until there is one."""
    with contextlib.suppress(Exception):
        _process.describe(info)


def note_uninstrumented(reason: str) -> None:
    """Have this process listed, with the reason why it records nothing."""
    with contextlib.suppress(Exception):
        _process.note(reason)


def silence() -> None:
    """Record nothing in this process, unless a thread of it has begun to; a forked child begins anew."""
    Here.control = (0,)


def set_main_role(name: str) -> None:
    """Say which of `vocabulary.THREADS` the main thread is. Unknown names count as unknown."""
    global _main_role
    _main_role = THREAD_CODE.get(name, 0)
    if threading.current_thread() is threading.main_thread():
        set_role(name)


def set_role(name: str) -> None:
    """Say which of `vocabulary.THREADS` the calling thread is."""
    here.role = THREAD_CODE.get(name, 0)
    state: State | None = getattr(here, "state", None)
    if state and here.seat.segment:
        here.state = (*state[:-1], here.role)
        here.seat.segment.name(threading.current_thread(), here.role)


def _begin(events: int) -> State | None:
    """Give the calling thread its rings, or count `events` as refused: the way of its first event."""
    try:
        return _begun(events)
    except Exception as error:  # noqa: BLE001
        fault(error)
        return None


def _begun(events: int) -> State | None:
    file = _process.opened()
    if file is None:
        _process.miss(events)
        return None
    here.control = file.control
    if not file.control[0]:
        return None
    seat: Seat | None = getattr(here, "seat", None)
    if seat is None:
        seat = here.seat = Seat(file)
    if monotonic_ns() >= seat.ask_at:
        _process.give(seat, threading.current_thread(), _role())
    if seat.segment is None:
        seat.refuse(events)
        return None
    state = here.state = _state(seat, _role())
    return state


def _state(seat: Seat, role: int) -> State:
    assert seat.segment is not None
    events = seat.segment.events
    keys = Keys(seat.segment.texts, seat.file.word("untold"), seat.file.ids)
    return (seat.file.control, events.take, events.bodies, events.sequences, keys, role)


def _role() -> int:
    told: int | None = getattr(here, "role", None)
    if told is not None:
        return told
    thread = threading.current_thread()
    if thread is threading.main_thread():
        return _main_role
    return THREAD_CODE[next((role for name, role in ROLE_OF_THREAD.items() if thread.name.startswith(name)), "unknown")]


def _forked() -> None:
    """A child has rings of its own: it would write over its parent's."""
    global _process
    with contextlib.suppress(Exception):
        here.__dict__.clear()
        Here.control = (0,) if SILENT else (1,)
        _process = _process.child()


def _ended() -> None:
    with contextlib.suppress(Exception):
        if _process.file:
            _process.file.forget()


os.register_at_fork(after_in_child=_forked)
atexit.register(_ended)
