"""The matrix of pairs, by a figure that can be changed."""

from __future__ import annotations

from kvscope.analysis.render.looks import Looks
from kvscope.live.pairs import MEASURES
from kvscope.top.views import pairs
from kvscope.top.widgets.list_view import ListView


class PairsView(ListView):
    """`f` goes through the figures."""

    def __init__(self, looks: Looks) -> None:
        super().__init__(pairs(), looks)
        self._measure = 0

    def turn(self) -> None:
        """The next figure."""
        self._measure = (self._measure + 1) % len(MEASURES)
        self._view = pairs(MEASURES[self._measure])
        self.redraw()
