"""What early commitment cost, from the same requests."""

from __future__ import annotations

from kvscope.analysis.render.page import Page
from kvscope.analysis.summary import Summary


def put_price(page: Page, summary: Summary) -> None:
    """."""
