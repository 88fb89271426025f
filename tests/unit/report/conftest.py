"""Small fleets, read and split once."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.analysis.summary import Summary, gather_summary
from kvscope.core.critical_path import split
from kvscope.model.events import Events
from kvscope.model.splits import Splits

from .scenes import EARLY, LATE, Item, events_of, fleet, lines, request, started, steps


@pytest.fixture(scope="session")
def early() -> tuple[Events, Splits]:
    """120 pushes dispatched early, with prompts of several lengths."""
    events = events_of(fleet(EARLY, 120))
    return events, split(events)


@pytest.fixture(scope="session")
def late() -> tuple[Events, Splits]:
    """120 pushes whose decode leg was sent after prefill's answer."""
    events = events_of(fleet(LATE, 120))
    return events, split(events)


@pytest.fixture
def summary_of() -> object:
    """Items -> summary."""

    def summarise(items: list[Item]) -> Summary:
        events = events_of(items)
        return gather_summary(events, split(events))

    return summarise


@pytest.fixture(scope="session")
def worked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The two worked examples as files."""
    folder = tmp_path_factory.mktemp("worked")
    made = {}
    for name, example in (("early", EARLY), ("late", LATE)):
        items = started() + request(example) + steps("p0", 160, 27) + steps("d0", 160, 12)
        made[name] = folder / f"{name}.jsonl"
        made[name].write_text("\n".join(lines(items)) + "\n")
    return made
