"""A label and facts beside it, each in a place of its own, so that nothing moves when a number changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from kvscope.analysis.render.page import LABEL, Page
from kvscope.analysis.render.palette import HEADING

GAP = 2


@dataclass(frozen=True)
class Slot:
    """A fact, and the room that the widest of its kind takes."""

    text: str
    room: int
    style: str = ""
    spare: bool = False
    """left out where it would take a line more"""


def put_slots(page: Page, label: str, slots: Sequence[Slot], style: str = HEADING) -> None:
    """As many to a line as have room there. Which ones is decided by their rooms, not by what they say now."""
    line, taken = Text.assemble((f"{label:<{LABEL}}", style)), LABEL
    for slot in slots:
        if taken > LABEL and taken + slot.room > page.width:
            if slot.spare:
                continue
            page.line(line)
            line, taken = Text(" " * LABEL), LABEL
        line.append(" " * (taken - len(line)))
        line.append(slot.text, slot.style)
        taken = max(taken + slot.room, len(line)) + GAP
    page.line(line)
