"""Dashboards and rules on a push pair."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvscope.lab.front import RouterProcess
from tests.integration.metrics.prometheus import needs_prometheus
from tests.lab.dashboards import Dashboards, Scene, under_load
from tests.lab.rig import Rig

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900), needs_prometheus]


@pytest.fixture(scope="module")
def scene(push_pair: Rig, push_router: RouterProcess) -> Iterator[Scene]:
    push_router.control(dispatch="early", hold_ms=0.0)
    with under_load(push_pair, push_router) as loaded:
        yield loaded


class TestPush(Dashboards):
    """Which hides part of its coordination."""
