"""What a pull pair is sent is not in what is recorded, though its ids are."""

from __future__ import annotations

import pytest

from kvscope.probe.ids import KEEP
from tests.lab.privacy import Privacy, Scene, scene_of
from tests.lab.rig import Rig

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def scene(pull_pair: Rig) -> Scene:
    return scene_of(pull_pair, KEEP)


class TestKept(Privacy):
    """Ids as they are unless somebody asks for something else."""
