"""Dashboards and rules on a pull pair."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvscope.lab.front import RouterProcess
from tests.integration.metrics.prometheus import needs_prometheus
from tests.lab.dashboards import Dashboards, Scene, under_load
from tests.lab.rig import Rig

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900), needs_prometheus]


@pytest.fixture(scope="module")
def scene(pull_pair: Rig, pull_router: RouterProcess) -> Iterator[Scene]:
    with under_load(pull_pair, pull_router) as loaded:
        yield loaded


class TestPull(Dashboards):
    """Which hides nothing."""
