"""Real processes that record, a real `kvscope serve` that serves what they do, and recordings that are played."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from kvscope.live.feed import Batch, Flow
from kvscope.live.remote import Remote
from kvscope.live.replay import Replay

from ..sources.conftest import ROOT, start

__all__ = ["start"]

PATIENCE_S = 60.0


def until(happened: Callable[[], bool], what: str) -> None:
    """Look again and again; fail with `what` if it does not happen."""
    pause, end = threading.Event(), time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end, what
        pause.wait(0.02)


class Served:
    """`kvscope serve`, as a process of its own."""

    def __init__(self, run_dir: Path, *words: str, port: int = 0) -> None:
        command = [sys.executable, "-m", "kvscope", "serve", "--run-dir", str(run_dir), "--port", str(port), *words]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(command, text=True, env=environ, **pipes)  # type: ignore[call-overload]
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def end(self, number: int = signal.SIGTERM) -> str:
        """Signal it; what it said."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return str(self.process.communicate()[1])


class Serve(Protocol):
    """Starts a server."""

    def __call__(self, *words: str, port: int = 0) -> Served: ...


@pytest.fixture
def serve(run_dir: Path) -> Iterator[Serve]:
    """Serve the rings of `run_dir`; all servers are ended with the test."""
    started: list[Served] = []

    def begin(*words: str, port: int = 0) -> Served:
        started.append(Served(run_dir, *words, port=port))
        return started[-1]

    yield begin
    for server in started:
        server.end(signal.SIGKILL)


class View:
    """A feed from elsewhere that keeps all that it gave."""

    def __init__(self, address: str) -> None:
        self.remote = Remote(address)
        self.batches: list[Batch] = []
        self.name, self.save, self.close = self.remote.name, self.remote.save, self.remote.close

    def poll(self) -> Batch:
        self.batches.append(self.remote.poll())
        return self.batches[-1]

    @property
    def last(self) -> Batch:
        return self.batches[-1]

    def count(self) -> int:
        """Events so far."""
        return sum(len(batch.events) for batch in self.batches)

    def until_count(self, wanted: int) -> None:
        """Poll until so many events have come."""

        def there() -> bool:
            self.poll()
            return self.count() >= wanted

        until(there, f"{wanted} events do not come: there are {self.count()}")

    def until_flow(self, flow: str) -> Batch:
        """Poll until it is so."""
        until(lambda: self.poll().flow == flow, f"it does not get {flow}")
        return self.last


Follow = Callable[[str], View]


@pytest.fixture
def follow() -> Iterator[Follow]:
    """Follow a server; all views are closed in the end."""
    views: list[View] = []

    def begin(address: str) -> View:
        views.append(View(address))
        return views[-1]

    yield begin
    for view in views:
        view.remote.close()


class Player:
    """A replay whose clock the test turns."""

    def __init__(self, *paths: Path) -> None:
        self.wall = 100.0
        self.replay = Replay(paths, lambda: self.wall)
        assert self.replay.wait(60)

    def after(self, seconds: float) -> Batch:
        """A poll so much later."""
        self.wall += seconds
        return self.replay.poll()

    def to_the_end(self, stride: float = 1.0) -> Iterator[Batch]:
        """Batches until it has ended."""
        for _ in range(100_000):
            batch = self.after(stride)
            yield batch
            if batch.flow is Flow.ENDED:
                return
        raise AssertionError("it does not end")


Play = Callable[..., Player]


@pytest.fixture
def play() -> Iterator[Play]:
    """Play files; all are closed in the end."""
    players: list[Player] = []

    def begin(*paths: Path) -> Player:
        players.append(Player(*paths))
        return players[-1]

    yield begin
    for player in players:
        player.replay.close()
