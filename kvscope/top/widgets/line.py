"""One line of text that is drawn again only when it says something else."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static


class Line(Static):
    """As wide as there is room; nothing has to be laid out anew, whatever it says."""

    def __init__(self, name: str) -> None:
        super().__init__(id=name)
        self._said: Text | None = None

    def put(self, text: Text) -> None:
        """Say this from now on."""
        if self._said is None or text != self._said or text.style != self._said.style:
            self._said = text
            self.update(text, layout=False)
