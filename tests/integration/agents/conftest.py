"""Hosts made of run directories: processes that record, an agent each, and one `kvscope serve --take`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.probe.reader import list_rings
from kvscope.sources import open_sources

from ..live.conftest import Served, until
from ..sources.conftest import ROOT, SCRIPT, Recording


class Agent:
    """`kvscope agent`, as a process of its own."""

    def __init__(self, url: str, host: Path, *words: str) -> None:
        command = [sys.executable, "-m", "kvscope", "agent", "--to", url, "--run-dir", str(host / "rings")]
        command += ["--spool", str(host / "spool"), "--name", host.name, "--interval", "50ms", *words]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.said: list[str] = []
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ)

    def until_it_says(self, words: str) -> str:
        """Read what it says until a line has the words; that line."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.strip())
            if words in line:
                return line.strip()
        raise AssertionError(f"it never said {words!r}, but: {self.said}")

    def end(self, number: int = signal.SIGTERM) -> list[str]:
        """Signal it; what it said."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.said += [line.strip() for line in self.process.communicate()[1].splitlines()]
        return self.said


@dataclass
class Fleet:
    """An aggregator, hosts, and what runs on them."""

    folder: Path
    words: list[str] = field(default_factory=list)
    """of the aggregator"""
    port: int = 0
    servers: list[Served] = field(default_factory=list)
    agents: dict[str, Agent] = field(default_factory=dict)
    started: list[Recording | Agent] = field(default_factory=list)

    @property
    def taken(self) -> Path:
        return self.folder / "taken"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def host(self, name: str) -> Path:
        (self.folder / name / "rings").mkdir(parents=True, exist_ok=True)
        return self.folder / name

    def serve(self, *words: str) -> Served:
        """The aggregator, on the port that it had before, if it had one."""
        served = Served(self.folder / "none", "--take", str(self.taken), *self.words, *words, port=self.port)
        self.port = served.port
        self.servers.append(served)
        return served

    def agent(self, name: str, *words: str, url: str = "") -> Agent:
        """One for a host."""
        self.agents[name] = Agent(url or self.url, self.host(name), *words)
        self.started.append(self.agents[name])
        return self.agents[name]

    def kill(self, name: str) -> None:
        self.agents[name].end(signal.SIGKILL)

    def kill_server(self) -> None:
        self.servers[-1].end(signal.SIGKILL)

    def engine(self, name: str, host: str, said: dict[str, Any] | None = None) -> Recording:
        """A process that records on a host."""
        rings = str(self.host(host) / "rings")
        command = ["env", f"KVSCOPE_RUN_DIR={rings}", sys.executable, str(SCRIPT), name]
        made = Recording(name, command, "env")
        self.started.append(made)
        return made

    def health(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/healthz", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def told(self) -> dict[str, Any]:
        """What the aggregator says of agents."""
        found: dict[str, Any] = self.health()["agents"]
        return found

    def written(self) -> dict[str, int]:
        """engine -> records that its rings took in all."""
        found = Counter[str]()
        for path in self.folder.glob("*/rings"):
            for ring in list_rings(path):
                found[ring.engine] += sum(segment.events.head() for segment in ring.segments())
        return dict(found)

    def counted(self) -> tuple[dict[str, int], dict[str, int]]:
        """By engine: (events in the folder, lost ones)."""
        held, lost = Counter[str](), Counter[str]()
        try:
            events = self.read()
        except InputError:  # it holds nothing yet
            return {}, {}
        for index, process in enumerate(events.processes):
            held[process.engine] += int((events.rows["process"] == index).sum())
            lost[process.engine] += process.lost + process.earlier + sum(gap.events for gap in process.gaps)
        return dict(held), dict(lost)

    def read(self) -> Events:
        return open_sources([self.taken], None).events

    def until_all_came(self, wanted: int) -> None:
        """Until the aggregator has so many events; what it lost counts."""

        def there() -> bool:
            held, lost = self.counted()
            return sum(held.values()) + sum(lost.values()) >= wanted

        until(there, f"{wanted} events do not come; what came is {self.counted()}")

    def end(self) -> None:
        for each in self.started:
            if each.process.poll() is None:
                each.end(signal.SIGKILL) if isinstance(each, Agent) else each.kill()
        for server in self.servers:
            server.end(signal.SIGKILL)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Hosts and an aggregator that has not been started; all is ended with the test."""
    found = Fleet(tmp_path)
    yield found
    found.end()
