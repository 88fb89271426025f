"""A real pull pair under light and heavy load: what kvscope says of it is true."""

from __future__ import annotations

import pytest

from kvscope.lab.front import RouterProcess
from kvscope.lab.load import LoadOptions
from tests.lab import claims
from tests.lab.observation import LOADS, observe
from tests.lab.rig import Rig

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


@LOADS
def test_pull(pull_pair: Rig, pull_router: RouterProcess, load: LoadOptions) -> None:
    seen = observe(pull_pair, pull_router.url, load)
    claims.hold(seen, "pull")
    assert all(split.knew_peer and "read_handoff" in split.exposed for _, split in seen.pairs)
