"""Colours of the classes: told apart by colour-blind readers, legible on dark and on light ground."""

from __future__ import annotations

from kvscope.model.stages import Class

# Ground colours after Okabe and Ito, moved to a middle lightness; the glyph in them repeats the message.
GROUND: dict[Class, str] = {
    Class.FRONTEND: "#8a8a8a",
    Class.COMPUTE_WAIT: "#e0a030",
    Class.COMPUTE_RUN: "#1f9e78",
    Class.COORDINATION: "#d8602c",
    Class.TRANSFER: "#3d8fd1",
    Class.UNDETERMINED: "#b673a3",
}
GLYPH = "#101010"

HEADING = "bold"
STRONG = "bold"
QUIET = "dim"
WARNING = "bold #d8602c"
COMMAND = "bold #3d8fd1"


def bar_style(cls: Class) -> str:
    """A filled cell."""
    return f"{GLYPH} on {GROUND[cls]}"


def word_style(cls: Class) -> str:
    """The class's name or number in running text."""
    return GROUND[cls]
