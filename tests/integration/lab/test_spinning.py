"""Which threads of a process spin for ever, and which only work."""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Iterator
from time import monotonic, thread_time

import pytest

from kvscope.lab import affinity

LIBC = ctypes.CDLL(None)


@pytest.fixture
def spinner() -> Iterator[None]:
    """A native thread that waits for a spin lock, which another has."""
    lock, thread = ctypes.c_int(), ctypes.c_ulong()
    LIBC.pthread_spin_init(ctypes.byref(lock), 0)
    LIBC.pthread_spin_lock(ctypes.byref(lock))
    assert LIBC.pthread_create(ctypes.byref(thread), None, LIBC.pthread_spin_lock, ctypes.byref(lock)) == 0
    yield
    LIBC.pthread_spin_unlock(ctypes.byref(lock))
    LIBC.pthread_join(thread, None)


def work(begun: threading.Event, over: threading.Event) -> None:
    """As much as makes a spinner, once it was waited for."""
    begun.wait()
    while thread_time() < 2 * affinity.TIRELESS_S:
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10_000)
    over.wait()


def test_what_never_waits_is_tireless_and_nothing_else_is(spinner: None) -> None:
    begun, over = threading.Event(), threading.Event()
    worker = threading.Thread(target=work, args=(begun, over))
    worker.start()
    begun.set()
    deadline = monotonic() + 60
    while not (found := affinity.tireless([os.getpid()])):
        assert monotonic() < deadline
    assert len(found) == 1
    others = {thread for _, thread in affinity.threads([os.getpid()])} - {os.getpid(), worker.native_id}
    assert set(found) <= others
    before = os.getpriority(os.PRIO_PROCESS, os.getpid())
    affinity.calm(found)
    assert os.getpriority(os.PRIO_PROCESS, found[0]) == affinity.NICENESS
    assert os.getpriority(os.PRIO_PROCESS, os.getpid()) == before, "and nobody else"
    while affinity._use(os.getpid(), worker.native_id or 0)[0] < affinity.TIRELESS_S:
        assert monotonic() < deadline
    assert affinity.tireless([os.getpid()]) == found, "who works has waited before"
    over.set()
    worker.join()
