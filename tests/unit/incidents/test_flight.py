"""A flight recorder goes on, whatever one batch may hold."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from kvscope.core.stream import Stream
from kvscope.incidents.flight import Flight, Plan
from kvscope.incidents.folder import Folder
from kvscope.incidents.memory import Memory
from kvscope.incidents.triggers import parsed
from kvscope.live.feed import Batch
from kvscope.model.errors import InputError
from kvscope.model.splits import Splits

from ..core.scene import events_of


def test_a_fault_in_judging_is_said_once_and_ends_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    flight = Flight(Memory(10), Folder(tmp_path / "saved"), Plan((parsed("ttft>1s"),)), said.append)
    batch, (answered, waiting) = Batch(events_of([]), 0), Stream().look()
    for _ in range(3):
        flight.observe(batch, [cast(Splits, None)], answered, waiting)
    assert len(said) == 1
    assert "triggers could not be judged" in said[0]
    flight.signalled("SIGUSR1")
    flight.observe(batch, [], answered, waiting)
    flight.close()
    assert flight.counts == {"saved": 1, "joined": 0, "suppressed": 0, "failed": 0}


def test_a_folder_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"--save-to .*file: file exists; name another folder"):
        Folder(tmp_path / "file")
