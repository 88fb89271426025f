"""Every key, what the glyphs mean, and the language of the filter: made of the tables that rule them."""

from __future__ import annotations

from itertools import groupby

from rich.text import Text

from kvscope.analysis.render.page import Page
from kvscope.analysis.render.palette import QUIET, STRONG, bar_style
from kvscope.live.figures import FIGURES, LABELS
from kvscope.model.stages import STAGES, Class
from kvscope.top.keys import KEYS, Key

EXAMPLE = "stage.registration_flight>50ms engine=d0 class=coordination"


def put_help(page: Page) -> None:
    """All of it; it scrolls."""
    page.line("Esc back   1 to 6 go to a view   PgDn and PgUp scroll", QUIET)
    for where, keys in groupby(KEYS, key=lambda key: key.where):
        page.heading(where or "Everywhere")
        for key in keys:
            _put_key(page, key)
    page.heading("Classes", "what a stretch of a bar is")
    for cls in Class:
        stages = ", ".join(stage.name for stage in STAGES if stage.cls is cls)
        page.line(Text.assemble((f" {cls.glyph} ", bar_style(cls)), (f" {cls.short:<6}", STRONG), f"{cls}: {stages}"))
    page.heading("Filter", f"/ {EXAMPLE}")
    page.prose(
        "Terms stand apart by blanks, and all must hold. Numbers: < <= > >= = !=, times with a unit (800us, 50ms, "
        "1.5s). Words: = is, != is not, ~ contains. A word alone is looked for in the ids.",
        1,
    )
    for label in LABELS:
        page.line(f" {label.name:<10} {label.meaning}")
    for figure in FIGURES:
        if "." not in figure.name:
            page.line(f" {figure.name:<10} {figure.meaning}")
    page.line(f" {'class.C':<10} exposed time in class C: {', '.join(cls.short for cls in Class)}")
    page.line(f" {'stage.S':<10} exposed time in stage S, named as above; hidden.S: the hidden time in it")


def _put_key(page: Page, key: Key) -> None:
    if key.meaning:
        page.line(Text.assemble((f" {key.shown:<6}", STRONG), f" {key.meaning}"))
