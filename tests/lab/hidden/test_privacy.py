"""What a push pair is sent is not in what is recorded, nor is an id that is to be hidden."""

from __future__ import annotations

import pytest

from kvscope.probe.ids import HASH
from tests.lab.privacy import Privacy, Scene, scene_of
from tests.lab.rig import Rig

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def scene(rig: Rig) -> Scene:
    return scene_of(rig, HASH)


class TestHidden(Privacy):
    """By a key that is made anew in each run directory."""
