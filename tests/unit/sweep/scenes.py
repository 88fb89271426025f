"""Sweeps whose cells are recordings of a real pair: those of the documents' pictures, named as a sweep would."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from kvscope.analysis.condition import gather_condition
from kvscope.analysis.overlap import gather_overlap
from kvscope.analysis.setup import gather_setup
from kvscope.core.critical_path import split
from kvscope.lab.client import ClientRecord
from kvscope.lab.sweeping.cell import Cell
from kvscope.lab.sweeping.folder import Capacity
from kvscope.lab.sweeping.plan import SweepOptions
from kvscope.model.events import Events
from kvscope.model.splits import Splits
from kvscope.sources import open_sources
from kvscope.sweep.measured import Inside, Measured
from kvscope.sweep.results import Results

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
MODES = ("push-early", "push-sequential", "pull")


@cache
def recorded(mode: str) -> tuple[Events, Splits]:
    events = open_sources([PICTURES / f"{mode}.kvs"]).events
    return events, split(events)


def named(splits: Splits, cell: Cell) -> Splits:
    """Requests called as the cell's, in the order of arrival."""
    texts = dict(splits.texts)
    for number, key in enumerate(splits.request.tolist()):
        texts[int(key)] = f"cmpl-{cell.name}-s-steady-{number:04d}-0-ab12"
    return replace(splits, texts=texts)


def inside(cell: Cell, most: int = 1000) -> Inside:
    events, splits = recorded(cell.mode)
    mine = named(splits.select(np.arange(min(most, len(splits)))), cell)
    timed = mine.select(mine.timed)
    setup = gather_setup(events.processes)
    return Inside(mine, timed, gather_condition(mine), setup, gather_overlap(timed), 0, ())


def record(number: int, ms: float, name: str = "x-s-steady", error: str = "") -> ClientRecord:
    sent = number * 10**9
    tokens = () if error else tuple(sent + round((ms + 10 * each) * 1e6) for each in range(3))
    return ClientRecord(
        f"{name}-{number:04d}", False, "p", 1, sent, sent, token_ns=tokens, end_ns=sent + 2 * 10**9,
        status=0 if error else 200, error=error, output_tokens=0 if error else 3,
    )  # fmt: skip


def told(**more: object) -> dict[str, object]:
    return {"rate": 2.0, "requests": 63, "salt": "s", "begun": "2026-11-30T10:00:00+00:00", "lost": 0, **more}


def measured(cell: Cell, most: int = 1000, **more: object) -> Measured:
    """A cell with a recording."""
    found = inside(cell, most)
    records = tuple(record(number, 300.0) for number in range(len(found.splits)))
    return Measured(cell, {**told(requests=len(records)), **more}, records, found, Path("cells") / cell.name)


def outside(cell: Cell, ms: list[float], errors: list[str] | None = None) -> Measured:
    """A cell that only its client saw."""
    records = [record(number, each) for number, each in enumerate(ms)]
    records += [record(len(ms) + number, 0.0, error=each) for number, each in enumerate(errors or [])]
    return Measured(cell, told(requests=len(records)), tuple(records), None, Path("cells") / cell.name)


def results(cells: list[Measured], left: list[Cell] | None = None, **options: object) -> Results:
    wishes = SweepOptions(**{"input_tokens": (1000,), "shares": (0.5,), **options})  # type: ignore[arg-type]
    return Results(wishes, {1000: Capacity(4.0, 16, "push-early")}, tuple(cells), tuple(left or ()))


def whole() -> Results:
    """All three modes at one load."""
    return results([measured(Cell(mode, 1000, 0.5)) for mode in MODES])
