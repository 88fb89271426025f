"""SIGKILL to a server while it saves: what was saved until then is read, and the next server goes on beside it."""

from __future__ import annotations

import http.client
import json
import random
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from kvscope.core.critical_path import split
from kvscope.model.errors import InputError
from kvscope.sources import open_sources

from ..live.conftest import Served, until
from .conftest import Incidents, Pair

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
KILLS = 12


def ask(server: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("POST", "/trigger", b"")
    assert connection.getresponse().status == 202
    connection.close()


def more(incidents: Incidents, number: int) -> bool:
    return len(incidents.found) > number


def test_a_server_that_is_killed_while_it_saves(pair: Pair, keep: Callable[..., Served], incidents: Incidents) -> None:
    draw, read = random.Random(4), 0
    for number in range(KILLS):
        server = keep("--after", "300s", "--no-metrics", "--trigger", "dispatch>200ms")
        sent = pair.request(delay_ms=250)
        until(partial(more, incidents, number), "nothing is saved")
        pair.request()
        threading.Event().wait(draw.uniform(0, 2))
        server.end(signal.SIGKILL)
        path = incidents.found[-1]
        if (path / "incident.json").exists():
            assert json.loads((path / "incident.json").read_text())["complete"] is False
        with suppress(InputError):  # no event was written yet
            opened = open_sources([path])
            assert any("was not ended" in note for note in opened.notes)
            read += sent in {each.request for each in split(opened.events)}
    assert read > KILLS / 3
    server = keep("--after", "100ms", "--before", "5s")
    ask(server)
    assert incidents.until(1)["ended_by"] == "its time"
