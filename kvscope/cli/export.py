"""`kvscope export`: a recording in the formats that other tools open."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kvscope.cli.apart import check_apart
from kvscope.cli.durations import seconds
from kvscope.cli.endings import ended_by_signals
from kvscope.cli.outcome import OK, say
from kvscope.cli.progress import Progress
from kvscope.cli.sources_arguments import named
from kvscope.model.counting import count
from kvscope.model.errors import InputError

if TYPE_CHECKING:
    from kvscope.export.passage import Part, Sink

HELP = "write a recording in a format that other tools open"

SECOND = 1_000_000_000
NOT_ALL = 1
"""The exit code where a collector took spans and threw some of them away."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Recordings, a stretch of them, and one or more formats."""
    what = "recordings, JSON lines or Parquet folders, read as one"
    parser.add_argument("files", nargs="+", type=named, metavar="FILE", help=what)
    parser.add_argument(
        "--from", type=seconds, dest="begin", metavar="TIME", help="begin so long after the first event"
    )
    parser.add_argument("--to", type=seconds, dest="end", metavar="TIME", help="end so long after the first event")
    parser.add_argument("--force", action="store_true", help="replace what is there")
    _add_tables(parser)
    _add_perfetto(parser)
    _add_otlp(parser)


def _add_tables(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Tables and lines, which every verb reads back (docs/parquet.md, docs/events.md)")
    group.add_argument("--parquet", type=path, metavar="DIR", help="a folder of Parquet files, for SQL and data frames")
    group.add_argument("--jsonl", type=named, metavar="FILE", help="JSON lines, one per moment; - for standard output")


def _add_perfetto(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("A trace for Perfetto's page (docs/perfetto.md)")
    what = "engines, threads, requests and their critical paths on one axis; open it at https://ui.perfetto.dev"
    group.add_argument("--perfetto", type=path, metavar="FILE", help=what)


def _add_otlp(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("OpenTelemetry traces (docs/otlp.md)")
    where = "a collector (http://HOST:4318; `env`: as OTEL_EXPORTER_OTLP_ENDPOINT has it), or a file of JSON lines"
    group.add_argument("--otlp", type=named, metavar="URL|FILE", help=where)
    group.add_argument(
        "--otlp-header", action="append", default=[], metavar="'NAME: VALUE'", help="show this to the collector, too"
    )
    group.add_argument("--otlp-ca", type=path, metavar="FILE", help="who may have signed its certificate (PEM)")


def run(args: argparse.Namespace) -> int:
    """Go through the recording once, into every format that was asked for. 1: a collector threw spans away."""
    from kvscope.export.passage import export, passage
    from kvscope.sources.past import open_past
    from kvscope.sources.sidebyside import side_by_side

    wanted = list(_wanted(args))
    if not wanted:
        raise InputError("no format was named; `kvscope export --help` lists them")
    check_apart(args.files, *_replaced(args))
    made: list[Sink] = []
    past = side_by_side(open_past(args.files, Progress("reading")))
    try:
        begin = past.begin + round((args.begin or 0) * SECOND) if args.begin is not None else None
        end = past.begin + round(args.end * SECOND) if args.end is not None else None
        _checked(args, past.begin, past.end)
        parts = _Parts(passage(past, begin, end, Progress("writing")))
        with ended_by_signals():
            sentences = export(iter(parts), _kept(wanted, made))
        for sentence in sentences:
            say(sentence)
        if parts.impossible:
            many, are = count(parts.impossible, "record"), "is" if parts.impossible == 1 else "are"
            say(f"kvscope: {many} {are} left out: of a time that cannot be, or of an unknown moment or process")
        for note in past.notes:
            say(f"kvscope: {note}")
    finally:
        past.close()
    return NOT_ALL if args.otlp and _threw_away(made) else OK


def _replaced(args: argparse.Namespace) -> Iterator[Path | str | None]:
    """What takes the place of what is there. A folder of tables is laid into itself without losing anything, unless
    that is a stretch of it."""
    yield from (args.jsonl, args.perfetto, args.otlp)
    if args.begin is not None or args.end is not None:
        yield args.parquet


def _kept(wanted: Iterable[Callable[[], Sink]], made: list[Sink]) -> Iterator[Sink]:
    """Make each when it is asked for, and keep it in `made`."""
    for make in wanted:
        made.append(make())
        yield made[-1]


def _threw_away(made: Iterable[Sink]) -> bool:
    from kvscope.export.otlp.sink import OtlpSink

    return any(isinstance(sink, OtlpSink) and sink.rejected for sink in made)


def _wanted(args: argparse.Namespace) -> Iterator[Callable[[], Sink]]:
    """What makes each sink that was asked for. Formats are imported here: each needs an extra of its own."""
    if args.parquet:
        yield _parquet(args)
    if args.jsonl:
        yield _jsonl(args)
    if args.perfetto:
        yield _perfetto(args)
    if args.otlp:
        yield _otlp(args)


def _parquet(args: argparse.Namespace) -> Callable[[], Sink]:
    from kvscope.export.parquet.sink import ParquetSink

    return lambda: ParquetSink(args.parquet, args.force)


def _jsonl(args: argparse.Namespace) -> Callable[[], Sink]:
    from kvscope.export.jsonl import STDOUT, JsonlSink, ToFile, ToStdout

    return lambda: JsonlSink(ToStdout() if args.jsonl == STDOUT else ToFile(Path(args.jsonl), args.force))


def _perfetto(args: argparse.Namespace) -> Callable[[], Sink]:
    from kvscope.export.perfetto import PerfettoSink
    from kvscope.export.perfetto.samples import beside
    from kvscope.stacks.reading import read_stacks

    stacks = [read_stacks(each) for each in beside(args.files)]
    for note in (note for each in stacks for note in each.notes):
        say(f"kvscope: {note}")
    return lambda: PerfettoSink(args.perfetto, args.force, stacks)


def _otlp(args: argparse.Namespace) -> Callable[[], Sink]:
    from kvscope.export.otlp.carriers import ToCollector, ToFile
    from kvscope.export.otlp.endpoint import endpoint, is_address
    from kvscope.export.otlp.sink import OtlpSink

    if is_address(args.otlp):
        found = endpoint(args.otlp, args.otlp_header, args.otlp_ca, os.environ)
        return lambda: OtlpSink(ToCollector(found, say))
    return lambda: OtlpSink(ToFile(path(args.otlp), args.force))


def _checked(args: argparse.Namespace, begin: int, end: int) -> None:
    length = (end - begin) / SECOND
    if args.begin is not None and args.begin > length:
        raise InputError(f"--from {args.begin:g}s lies behind the end: the recording is {length:.1f} s long")
    if args.end is not None and args.end <= (args.begin or 0):
        raise InputError(f"--to {args.end:g}s is not later than --from {args.begin or 0:g}s; name a later time")


class _Parts:
    """Parts as they come, and how many records no format gets."""

    def __init__(self, parts: Iterator[Part]) -> None:
        self._parts, self.impossible = parts, 0

    def __iter__(self) -> Iterator[Part]:
        for part in self._parts:
            self.impossible += part.events.impossible
            yield part


def path(text: str) -> Path:
    """A file or folder to write."""
    return Path(named(text))
