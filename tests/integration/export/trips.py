"""There and back: a recording into tables and lines, and what a report says of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kvscope.analysis.document import report_document
from kvscope.analysis.summary import gather_summary
from kvscope.core.critical_path import split
from kvscope.core.hosts import ALONE
from kvscope.export.jsonl import JsonlSink, ToFile
from kvscope.export.parquet.sink import ParquetSink
from kvscope.export.passage import Sink, export, passage
from kvscope.sources.opening import open_all
from kvscope.sources.past import open_past

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"


def tables(folder: Path, *sources: Path) -> Path:
    """The Parquet folder of some sources."""
    exported(sources, folder, None)
    return folder


def lines(path: Path, *sources: Path) -> Path:
    """The JSON lines of some sources."""
    exported(sources, None, path)
    return path


def exported(sources: Sequence[Path], folder: Path | None, path: Path | None) -> list[str]:
    """Both at once, as the command does it."""
    past = open_past(sources, lambda share: None)
    try:
        makers: list[Callable[[], Sink]] = [lambda: ParquetSink(folder, False)] if folder else []
        makers += [lambda: JsonlSink(ToFile(path, False))] if path else []
        return export(passage(past), (make() for make in makers))
    finally:
        past.close()


def report(*sources: Path) -> str:
    """What `kvscope report --json` prints of them, clocks of several hosts left alone: exports do so."""
    opened = open_all(sources, None)
    splits = split(opened.events, hosts=ALONE)
    return "".join(report_document(gather_summary(opened.events, splits, notes=opened.notes), splits))
