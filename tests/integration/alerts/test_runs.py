"""From what real engines recorded to the alert, by way of the exporter: which of them three runs set off.

A run of half a minute is told as if a second were half a minute, so that its sixty requests fill the windows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvscope.alerts.table import ALERTS
from kvscope.metrics.exposition import Exporter
from kvscope.metrics.reading import Reading
from kvscope.sources.opening import open_all

from ..metrics.test_recordings import PICTURES, batches
from .case import Case, Values
from .promtool import complaints, needs_promtool, pending
from .test_alerts import rules

EVERY = 4
"""Batches of half a second between two scrapes, which are then told as a minute apart."""
SCRAPES = 40
LINE = re.compile(r"^(kvscope_\S+) (\S+)$", re.M)
ASKED = frozenset(re.findall(r"\bkvscope_[a-z_]+", "\n".join(str(rule) for rule in rules(*ALERTS))))


def scrapes(name: str) -> Iterator[dict[str, float]]:
    """Series that alerts ask for, as each scrape of a run has them."""
    parts = batches(open_all([PICTURES / f"{name}.kvs"], None).events)
    reading = Reading(lambda: next(parts))
    exporter = Exporter(reading.told)
    for _ in range(SCRAPES):
        told = LINE.findall(exporter.page("", "").body.decode())
        yield {series: float(value) for series, value in told if series.partition("{")[0] in ASKED}
        for _ in range(EVERY):
            reading.step()


def run(name: str) -> Case:
    """All of them, a minute apart."""
    pages = list(scrapes(name))
    series: dict[str, Values] = {each: [page.get(each) for page in pages] for each in pages[-1]}
    return Case(name, series, SCRAPES - 10)


@pytest.mark.slow
@needs_promtool
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pull", set()),
        ("push-early", {"KvscopeLateNotice"}),
        ("push-sequential", {"KvscopePushNotOverlapping"}),
    ],
)
def test_a_run_sets_off_what_ails_it(name: str, expected: set[str], tmp_path: Path) -> None:
    case = run(name)
    assert not complaints(rules(*ALERTS), [pending(alert, case, alert.name in expected) for alert in ALERTS], tmp_path)
