"""One push pair for all that is shown on it: it takes more than a minute to start.

What comes first (`test_agreement`) finds rings that hold all that happened; the rest tells its own requests by their
ids.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvscope.lab.front import RouterProcess
from kvscope.lab.pair import PairOptions
from tests.lab.rig import Rig
from tests.lab.scraping import PODS


@pytest.fixture(scope="package")
def push_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A prefill and a decode engine with the push connector, each in a pod, as on Kubernetes."""
    rig = Rig(PairOptions(connector="push"), tmp_path_factory.mktemp("push"), PODS)
    with rig:
        yield rig


@pytest.fixture(scope="package")
def push_router(push_pair: Rig) -> RouterProcess:
    """Our router in front of it; each test says how it is to dispatch."""
    return push_pair.router("early")
