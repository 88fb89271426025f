"""How pages look on this terminal: plain or not, colour or not, and nothing in them that steers a terminal."""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text

from kvscope.analysis.render.page import Page
from kvscope.model.controls import UNSEEN

ASCII_RULE, LINE_RULE = "-", "\u2500"


@dataclass(frozen=True)
class Looks:
    """What the terminal can show."""

    ascii_only: bool = False
    colour: bool = True

    def page(self, width: int) -> Page:
        """An empty page."""
        return Page(width, self._stroke)

    def rule(self, width: int) -> str:
        """A line across."""
        return self._stroke * width

    @property
    def _stroke(self) -> str:
        return ASCII_RULE if self.ascii_only else LINE_RULE

    def cleaned(self, line: Text) -> Text:
        """The line as it may be sent to the terminal."""
        plain = line.plain.translate(UNSEEN)
        if self.ascii_only:
            plain = plain.encode("ascii", "replace").decode()
        if plain != line.plain:
            line = Text(plain, line.style, spans=line.spans)
        return line if self.colour else _without_colour(line)


def _without_colour(line: Text) -> Text:
    """Bold, dim and reverse say enough: every class has its glyph."""
    spans = [span._replace(style=_weight(span.style)) for span in line.spans]
    return Text(line.plain, _weight(line.style), spans=spans)


def _weight(style: object) -> str:
    return " ".join(word for word in str(style).split() if word in ("bold", "dim", "reverse"))
