"""The page on traces holds what the code makes."""

from __future__ import annotations

from pathlib import Path

from kvscope.export.otlp.markdown import BEGIN, END, tables


def test_the_tables_are_those_of_the_code() -> None:
    page = Path("docs/otlp.md").read_text()
    assert page[page.index(BEGIN) + len(BEGIN) : page.index(END)].strip() == tables().strip()
