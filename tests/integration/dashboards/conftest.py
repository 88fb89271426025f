"""A real Prometheus that has scraped recordings of real engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..metrics.prometheus import Prometheus
from .stage import played


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder: Path = tmp_path_factory.mktemp("rings")
    with played(folder) as scraped:
        yield scraped
