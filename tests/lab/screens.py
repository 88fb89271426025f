"""`kvscope top` on a real pair, and what it says held against what `kvscope report` says of the same requests."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kvscope.live.regime import AFTER, EARLY, PULL, Manner
from kvscope.top.widgets.page_view import NARROWEST
from tests.lab.terminal import Terminal, flat

KVSCOPE = (sys.executable, "-m", "kvscope")
WINDOW = re.compile(r"  win (?:(\d+)/)?60 s$", re.M)
LEADER = re.compile(r">> (.*? leads .*?) (?:So since|It did so before|The slower half|Too few requests)")
"""What the overview and the report say in the same words; the overview goes on by since when."""
OVER = re.compile(r"complete \S+ of ([\d,]+)")
OVERLAP = {EARLY: "Push", AFTER: "Push", PULL: "Pull: the transfer starts once decode was called"}
"""How the report's sentence on overlap begins. How much of a push overlapped depends on the machine too: where prefill
is late to stage its blocks, some are staged after a registration that came late itself."""
SENTENCE = re.compile(r"(?:Push overlapped|Push, but nothing overlapped|Pull: ).*?\.(?= )")
SLACK_S = 2
"""The report's time ends with the last event, top's goes on; no request lies so close before the window."""


def top(run_dir: Path, folder: Path, *words: str) -> Terminal:
    """Start it on a terminal of 100 x 30; what it saves goes into `folder`."""
    return Terminal([*KVSCOPE, "top", "--run-dir", str(run_dir), *words], folder=folder)


def top_from_elsewhere(address: str, folder: Path) -> Terminal:
    """The same, by way of a server."""
    return Terminal([*KVSCOPE, "top", "--connect", address], folder=folder)


@contextmanager
def served(run_dir: Path, port: int = 0, *words: str) -> Iterator[str]:
    """`kvscope serve`, killed at the end of the block; its address."""
    command = [*KVSCOPE, "serve", "--run-dir", str(run_dir), "--port", str(port), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip().removeprefix("http://")
            assert address, "it serves nothing"
            yield address
        finally:
            server.kill()


def report(*words: str) -> str:
    """What the report prints."""
    return printed("report", *words)


def printed(*words: str) -> str:
    """What a verb prints."""
    done = subprocess.run([*KVSCOPE, *words], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def window_s(text: str) -> int:
    """The title's."""
    found = WINDOW.search(text)
    assert found, text
    return int(found[1] or 60)


def says(text: str, manner: Manner) -> bool:
    """Whether the overview says that decode is called so; since when may follow."""
    return manner.sentence.rstrip(".") in flat(text)


@dataclass(frozen=True)
class Verdict:
    """What the overview says."""

    leader: str
    """who leads TTFT, or between whom that is undecided, and by how much"""
    manner: Manner
    window_s: int


def verdict(text: str) -> Verdict:
    """Read it off the screen."""
    found = LEADER.search(flat(text))
    assert found, text
    (manner,) = (each for each in OVERLAP if says(text, each))
    return Verdict(found[1], manner, window_s(text))


def percentiles(text: str) -> list[str]:
    """The table's rows of them, as they stand on the screen."""
    return [line for line in text.splitlines() if line.startswith(("p50 ", "p95 ", "p99 "))]


def drawn_for(text: str, columns: int) -> bool:
    """Whether the overview was drawn for so many columns: a terminal that is made narrow cuts lines off by itself."""
    if columns < NARROWEST:
        return f"This window has {columns} columns" in flat(text)
    title = text.splitlines()[0]
    return len(title) == columns and WINDOW.search(title) is not None


def over(text: str) -> int:
    """How many requests of the window are over."""
    found = OVER.search(text)
    return int(found[1].replace(",", "")) if found else 0


def agrees_with_the_report(screen: Terminal, run_dir: Path, manner: Manner, sent: int) -> None:
    """All `sent` are answered: the overview says the very words of the report, which are of the same requests."""
    told = verdict(screen.until(lambda text: over(text) == sent and says(text, manner)))
    of_these = ("--run-dir", str(run_dir), "--last", f"{told.window_s + SLACK_S}s")
    reported = flat(report(*of_these))
    overlap = SENTENCE.search(reported)
    assert overlap, reported
    print(f"{told.window_s} s: {told.leader} {told.manner.sentence} ({overlap[0]})")
    assert told.manner is manner
    assert f">> {told.leader} " in reported
    assert overlap[0].startswith(OVERLAP[manner])
    found = json.loads(report(*of_these, "--json"))["summary"]
    assert found["condition"]["requests"] == sent
    assert shows(found["overlap"], manner)


def shows(overlap: dict[str, int], manner: Manner) -> bool:
    """Whether the registrations that came late did so for that; of a router's first request they always do."""
    if manner is PULL:
        return overlap["pulls"] > 0 == overlap["pushes"]
    late = overlap["pushes"] - overlap["registered_before_staged"]
    return overlap["late_told_by_router"] == late > 1 if manner is AFTER else overlap["late_told_by_router"] <= 1
