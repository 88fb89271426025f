"""A row per engine: how its data are, what it does now, what its requests went through there, what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from kvscope.analysis.render.amounts import NOT_KNOWN, Milliseconds, duration, share
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.palette import HEADING, QUIET, WARNING
from kvscope.live.enginedata import Data
from kvscope.live.enginerows import EngineRow, engine_rows
from kvscope.live.snapshot import Snapshot
from kvscope.model.counting import count

LEAST_NAME, MOST_NAME = 6, 20
"""Room for a name; of a longer one the end is shown."""
CURSOR = "> "
SCALE = Milliseconds(1e9)
LETTERS = {"prefill": "P", "decode": "D"}
OTHER = {"prefill": "decode", "decode": "prefill"}
FEW = 6
"""Engines named in one sentence."""


@dataclass(frozen=True)
class Column:
    """A figure of an engine: its head, its room, what it is, and how it is written."""

    head: str
    room: int
    meaning: str
    text: Callable[[EngineRow], str]


def _load(name: str) -> Callable[[EngineRow], str]:
    return lambda row: NOT_KNOWN if row.load is None else f"{getattr(row.load, name):,}"


def _ms(ns: float | None) -> str:
    return NOT_KNOWN if ns is None else SCALE.of(ns)


def _share(part: float | None, whole: float | None) -> str:
    return NOT_KNOWN if part is None or whole is None else share(part, whole)


def _state(row: EngineRow) -> str:
    if row.data is Data.GONE and row.silent is not None:
        return f"gone {row.silent // 1_000_000_000}s"
    return "ok" if row.data is Data.INSTRUMENTED else str(row.data)


def _roles(row: EngineRow) -> str:
    return "+".join(LETTERS[leg] for leg in row.roles) or NOT_KNOWN


def _when_seen(row: EngineRow, number: int) -> str:
    """A count of what was recorded there: of an engine that records nothing it is not known."""
    return NOT_KNOWN if row.data is Data.DARK else f"{number:,}"


def _queue(row: EngineRow) -> str:
    return "/".join(map(SCALE.of, row.queue.values())) or NOT_KNOWN


def _backlog(row: EngineRow) -> str:
    return NOT_KNOWN if row.backlog is None else f"{row.backlog.blocks:,}+{row.backlog.registrations:,}"


def _posts(row: EngineRow) -> str:
    told = [str(row.started[name]) for name in ("mode", "placement") if name in row.started]
    return ", ".join(told) or NOT_KNOWN


COLUMNS: tuple[Column, ...] = (
    Column("role", 4, "the legs its requests had there", _roles),
    Column("data", 8, "ok, partly, dark (not instrumented), gone (silent)", _state),
    Column("wait", 5, "", _load("waiting")),
    Column("run", 4, "", _load("running")),
    Column("held", 4, "requests, as told last (held: for remote KV)", _load("held")),
    Column("KV", 5, "blocks used now", lambda row: _share(row.used_blocks, row.kv_blocks)),
    Column("blocks", 7, "of so many", lambda row: NOT_KNOWN if row.kv_blocks is None else f"{row.kv_blocks:,}"),
    Column("idle", 5, "reserved and not transferred now", lambda row: _share(row.idle_blocks, row.kv_blocks)),
    Column("fail", 4, "requests that failed there", lambda row: _when_seen(row, row.trouble.failed)),
    Column("exp", 3, "of these, expired", lambda row: _when_seen(row, row.trouble.expired)),
    Column("queue", 6, "p50 until scheduled (P), admitted (D)", _queue),
    Column("step", 6, "p50 of steps", lambda row: _ms(row.step_p50)),
    Column("p95", 7, "of steps", lambda row: _ms(row.step_p95)),
    Column("conn", 5, "the connector's share of their time", lambda row: _share(row.connector_share, 1)),
    Column("backlog", 7, "blocks + registrations that wait for its writer", _backlog),
    Column("wake", 6, "p95 until its writer woke", lambda row: _ms(row.wake_p95)),
    Column("meet", 5, "handshakes", lambda row: _when_seen(row, row.handshakes)),
    Column("bad", 3, "failed ones", lambda row: _when_seen(row, row.trouble.handshakes)),
    Column("lost", 6, "events overwritten unread", lambda row: _when_seen(row, row.lost)),
    Column("posts", 14, "mode, thread", _posts),
    Column("connector", 17, "", lambda row: str(row.started.get("connector", NOT_KNOWN))),
)
"""What is missed least stands last: a narrow page drops columns from the right."""


def engine_names(snapshot: Snapshot) -> tuple[str, ...]:
    """What the cursor can be on, in the order of the rows."""
    return tuple(row.name for row in engine_rows(snapshot))


def put_engines(page: Page, snapshot: Snapshot, cursor: int = -1, first: int = 0, height: int = 0) -> None:
    """Draw rows [first, first + height), all of them for height 0; that of the place `cursor` is marked."""
    rows = engine_rows(snapshot)
    page.prose(_title(rows, snapshot), hang=2, style=HEADING)
    if not rows:
        page.prose("No engine was seen. If vLLM runs here, `kvscope doctor` tells what it lacks to be seen.")
        return
    room = min(MOST_NAME, max(LEAST_NAME, *(len(row.name) for row in rows)))
    shown = fitting(page.width - len(CURSOR) - room)
    page.line(" " * len(CURSOR) + _cells("engine", [column.head for column in shown], shown, room), QUIET)
    chosen = rows[first : first + height] if height else rows
    for place, row in enumerate(chosen, first):
        page.line(_line(row, shown, room, place == cursor, page.width))
    page.line()
    for note in _notes(rows):
        page.prose(note, hang=2, style=WARNING)
    for note in _blind_spots(rows, snapshot):
        page.prose(note, hang=2)
    page.prose(_connectors(rows), hang=2)
    page.prose(_legend(shown), style=QUIET)


def fitting(room: int) -> tuple[Column, ...]:
    """The columns for which there is room beside the name."""
    shown: list[Column] = []
    for column in COLUMNS:
        room -= 1 + column.room
        if room < 0:
            break
        shown.append(column)
    return tuple(shown)


def _cells(name: str, texts: Sequence[str], shown: Sequence[Column], room: int) -> str:
    placed = (text.rjust(column.room) for text, column in zip(texts, shown, strict=True))
    return " ".join((name[-room:].ljust(room), *placed))


def _line(row: EngineRow, shown: Sequence[Column], room: int, marked: bool, width: int) -> Text:
    line = _cells(row.name, [column.text(row) for column in shown], shown, room)
    if marked:
        return Text((CURSOR + line).ljust(width), "reverse")
    return Text(" " * len(CURSOR) + line, "" if row.data is Data.INSTRUMENTED else WARNING)


def _title(rows: Sequence[EngineRow], snapshot: Snapshot) -> str:
    roles = Counter(" and ".join(row.roles) for row in rows if row.roles)
    states = Counter(str(row.data) for row in rows if row.data is not Data.INSTRUMENTED)
    kinds = [
        f"{number:,} {what}" for counter in (roles, states) for what, number in sorted(counter.items(), reverse=True)
    ]
    span = duration(max(0, snapshot.now - snapshot.begin))
    return f"ENGINES  {len(rows):,}{': ' if kinds else ''}{', '.join(kinds)}   last {span}"


def _notes(rows: Sequence[EngineRow]) -> Iterator[str]:
    """Why data are not whole: engines with the same to say in one sentence."""
    for data, what in ((Data.DARK, "not instrumented"), (Data.PARTLY, "instrumented in part")):
        told: dict[str, list[str]] = {}
        for row in rows:
            if row.data is data:
                told.setdefault("; ".join(row.reasons), []).append(row.name)
        for reason, names in told.items():
            yield f"{what}: {_named(names)}: {reason}"
    for row in rows:
        if row.data is Data.GONE and row.silent is not None:
            yield f"gone: {row.name}: no event for {duration(row.silent)} though others go on and it had work to do"
    lossy = [f"{row.name} ({row.lost:,})" for row in rows if row.lost]
    if lossy:
        yield f"lost events, so that counts and stages there may be short: {_named(lossy)}"


def _blind_spots(rows: Sequence[EngineRow], snapshot: Snapshot) -> Iterator[str]:
    """What the requests seen do not show."""
    sides = {leg for row in rows for leg in row.roles}
    if not sides:
        yield "No request in this time: the role of an engine is what its requests show, and none came."
    elif len(sides) == 1:
        (seen,) = sides
        yield f"Only {seen} legs are seen: the engines that {OTHER[seen]} for them give no events here."
        return
    alone = Counter[str]()
    for where, requests in snapshot.summary.condition.one_legged:
        alone[where.partition(" ")[0]] += requests
    for seen, requests in alone.items():
        who = count(requests, "request was", "requests were")
        yield f"{who} seen from {seen} alone: the engines that {OTHER[seen]} for them give no events here."


def _connectors(rows: Sequence[EngineRow]) -> str:
    """Who moves blocks how: said in full, whatever columns there are."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        told = [str(row.started.get(name, "")) for name in ("connector", "mode")]
        thread = f"posts on the {row.started['placement']} thread" if "placement" in row.started else ""
        groups.setdefault(", ".join(filter(None, (*told, thread))) or "not told", []).append(row.name)
    return "Connector: " + "; ".join(f"{what}: {_named(names)}" for what, names in groups.items()) + "."


def _named(names: Sequence[str]) -> str:
    more = len(names) - FEW
    return ", ".join(names[:FEW]) + (f" and {count(more, 'other')}" if more > 0 else "")


def _legend(shown: Sequence[Column]) -> str:
    """What the columns are; neighbours may share a meaning."""
    meanings, heads = [], []
    for column in shown:
        heads.append(column.head)
        if column.meaning:
            meanings.append(f"{', '.join(heads)}: {column.meaning}")
            heads = []
    left_out = [column.head for column in COLUMNS[len(shown) :]]
    wider = f" On a wider screen: {', '.join(left_out)}." if left_out else ""
    return f"Times in ms. {'; '.join(meanings)}.{wider}"
