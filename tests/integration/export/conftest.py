"""A collector to send spans to, and a real one that passes them on to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .collector import Collector
from .rotel import rotel


@pytest.fixture
def collector() -> Iterator[Collector]:
    """It takes what it gets, unless it is told to answer otherwise."""
    with Collector() as made:
        yield made


@pytest.fixture
def through_rotel(collector: Collector, tmp_path: Path) -> Iterator[str]:
    """The address of a real collector that passes all on to `collector`."""
    with rotel(collector.url, tmp_path) as url:
        yield url
