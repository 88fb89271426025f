"""Real vLLM engines. Their interpreter is the lab's own, or KVSCOPE_LAB_PYTHON."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvscope.lab.front import RouterProcess
from kvscope.lab.pair import Pair, PairOptions
from kvscope.lab.progress import Plain


@pytest.fixture(scope="module")
def push_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A pair with the push connector, started once for a module: it takes a minute."""
    with Pair(PairOptions(connector="push"), tmp_path_factory.mktemp("push"), Plain()) as pair:
        yield pair


@pytest.fixture(scope="module")
def push_router(push_pair: Pair) -> RouterProcess:
    """Our router in front of it."""
    return push_pair.router("early")
