"""A view as files: a picture, text, and the numbers behind it."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from kvscope.analysis.document import report_document
from kvscope.analysis.render.page import Page
from kvscope.live.snapshot import Snapshot
from kvscope.model.errors import InputError


def export(page: Page, snapshot: Snapshot, view: str, folder: Path) -> str:
    """Write kvscope-VIEW-TIME.svg, .txt and .json; returns a sentence. InputError: they cannot be written."""
    stem = folder / f"kvscope-{view}-{time.strftime('%Y%m%d-%H%M%S')}"
    kinds: dict[str, Callable[[], str]] = {
        "svg": lambda: _svg(page, view),
        "txt": lambda: "\n".join(line.plain.rstrip() for line in page.lines) + "\n",
        "json": lambda: "".join(report_document(snapshot.summary, snapshot.window)),
    }
    try:
        for kind, made in kinds.items():
            stem.with_suffix(f".{kind}").write_text(made(), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {error.filename}: {(error.strerror or str(error)).lower()}") from None
    return f"wrote {stem.name}.svg, .txt and .json to {folder}"


def _svg(page: Page, view: str) -> str:
    console = Console(width=page.width, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in page.lines:
        console.print(line, no_wrap=True, crop=False, overflow="ignore")
    return console.export_svg(title=f"kvscope top: {view}")
