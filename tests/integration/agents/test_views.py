"""What a view shows of what agents sent: legs from two hosts joined, and what should be known beside them."""

from __future__ import annotations

import subprocess
import sys
from urllib.request import Request, urlopen

import pytest

from kvscope.agents.wire import sealed

from ..live.conftest import Served, View, until
from ..sources.conftest import ROOT
from .conftest import Fleet

ENGINES = """
import sys, time
sys.path.insert(0, {benchmarks!r})
import writing_engines
engine = writing_engines.Engine(sys.argv[1])
for number in range(20):
    for _, job in writing_engines.moments(engine, number):
        job()
print("done", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_requests_are_joined_from_two_agents_and_what_was_refused_stands_beside_them(fleet: Fleet) -> None:
    fleet.serve()
    code = ENGINES.format(benchmarks=str(ROOT / "benchmarks"))
    for name, host in (("p0", "a"), ("d0", "b")):
        rings = f"KVSCOPE_RUN_DIR={fleet.host(host) / 'rings'}"
        command = ["env", rings, f"PYTHONPATH={ROOT}", sys.executable, "-c", code, name]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        assert done.stdout.endswith("done\n")
        fleet.agent(host)
    written = sum(fleet.written().values())
    fleet.until_all_came(written)
    _garbage(fleet)
    seen = Served(fleet.folder / "none", "--taken", str(fleet.taken), "--no-metrics")
    fleet.servers.append(seen)
    for server in (fleet.servers[0], seen):
        words = ["top", "--connect", f"localhost:{server.port}", "--once", "--view", "requests"]
        command = [sys.executable, "-m", "kvscope", *words]
        page = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        assert page.stdout.count("p0>d0") == 20
    view = View(f"localhost:{fleet.servers[0].port}")
    try:
        view.until_count(written)
        until(lambda: bool(view.poll().notes), "nothing is said beside them")
        assert view.last.notes == ("what agents sent was refused: garbage 1",)
        assert view.last.faults == ()
        fleet.kill("b")
        until(lambda: any("agent b" in fault for fault in view.poll().faults), "it is not missed")
    finally:
        view.close()


def _garbage(fleet: Fleet) -> None:
    with urlopen(Request(f"{fleet.url}/take", sealed({"none": 0}), method="POST"), timeout=30) as answer:
        assert b"garbage" in answer.read()
