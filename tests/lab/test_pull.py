"""A real pull pair under light and heavy load: what kvscope says of it is true."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvscope.lab.load import LoadOptions
from kvscope.lab.pair import Pair, PairOptions
from kvscope.lab.progress import Plain
from tests.lab import claims
from tests.lab.observation import LOADS, observe

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def pull_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pair, str]]:
    with Pair(PairOptions(connector="pull"), tmp_path_factory.mktemp("pull"), Plain()) as pair:
        yield pair, pair.router("sequential").url


@LOADS
def test_pull(pull_pair: tuple[Pair, str], load: LoadOptions) -> None:
    pair, url = pull_pair
    seen = observe(pair, url, load)
    claims.hold(seen, "pull")
    assert all(split.knew_peer and "read_handoff" in split.exposed for _, split in seen.pairs)
