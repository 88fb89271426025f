"""One cell as it was measured: what its client saw, and what its recording tells of the same requests."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kvscope.analysis.bands import CLASSES, class_ns
from kvscope.analysis.condition import Condition, gather_condition
from kvscope.analysis.overlap import COORDINATION_STAGES, Overlap, gather_overlap
from kvscope.analysis.setup import Setup, gather_setup
from kvscope.core.critical_path import split
from kvscope.lab import client
from kvscope.lab.client import ClientRecord
from kvscope.lab.sweeping.cell import MODES, TARGET, Cell
from kvscope.lab.sweeping.folder import CELL, CLIENT, RECORDING
from kvscope.model.counting import count
from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.model.requests import State
from kvscope.model.splits import Splits
from kvscope.model.stages import Class
from kvscope.sources import open_sources
from kvscope.sweep.estimates import FEWEST, Estimate, percentile

KEY = re.compile(r"((?:steady|burst|turn)-\d+(?:\.\d+)?)")
"""What a request is called in every mode: the end of its id."""
KNEW_ALWAYS, KNEW_NEVER = 0.9, 0.1


@dataclass(frozen=True)
class Inside:
    """What a recording tells of a cell's requests."""

    splits: Splits
    """of this cell, in the order of arrival"""
    timed: Splits
    """of these what has a time to first token"""
    condition: Condition
    setup: Setup
    overlap: Overlap
    others: int
    """requests in the recording that the cell did not send"""
    notes: tuple[str, ...]

    @cached_property
    def classes(self) -> dict[Class, float]:
        """Mean ns on the path; together the mean time to first token."""
        means = class_ns(self.timed.exposed).mean(axis=0)
        return {cls: float(ns) for cls, ns in zip(CLASSES, means, strict=True)}

    @property
    def hidden(self) -> float:
        """Mean ns of coordination behind the path."""
        return float(self.timed.hidden[:, COORDINATION_STAGES].sum(axis=1).mean())

    def bounds(self, cls: Class) -> tuple[float, float]:
        """Mean ns of a class, low and high."""
        low, high = self.timed.class_bounds(cls)
        return float(low.mean()), float(high.mean())

    @property
    def clock(self) -> str:
        """How far its times can be trusted."""
        hosts, told = len(self.setup.hosts), []
        if hosts > 1:
            bound = self.condition.clocks.bound_most_ns / 1e6
            told.append(f"{hosts} hosts, times between them within {bound:.1f} ms")
        if unaligned := self.condition.states[State.UNALIGNED]:
            told.append(f"{unaligned:,} unaligned")
        told += [f"{name.replace('_', ' ')} {n:,}" for name, n in self.condition.marks if name == "clock_step"]
        if torn := self.condition.tally.order_violations:
            told.append(f"{count(torn, 'order violation')}")
        return ", ".join(told) or "one clock"


@dataclass(frozen=True)
class Measured:
    """One cell."""

    cell: Cell
    told: dict[str, Any]
    """As it was measured: rate, engines, machine, loads."""
    records: tuple[ClientRecord, ...]
    """By the time they were sent."""
    inside: Inside | None
    """None: no recording, or one that holds none of these requests."""
    folder: Path
    notes: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Requests per second that were asked for."""
        return float(self.told["rate"])

    @property
    def planned(self) -> int:
        """Requests that were to be sent."""
        return int(self.told["requests"])

    @property
    def answered(self) -> int:
        """In full."""
        return sum(record.ok for record in self.records)

    @cached_property
    def failures(self) -> tuple[tuple[str, int], ...]:
        """(what the client was told, requests), most first."""
        return tuple(Counter(_why(record) for record in self.records if not record.ok).most_common())

    @property
    def failed(self) -> int:
        """Requests that were not answered in full."""
        return len(self.records) - self.answered

    @property
    def unfinished(self) -> int | None:
        """Requests without first token and end; None where nobody could see."""
        return self.inside.condition.states[State.UNFINISHED] if self.inside else None

    @property
    def lost(self) -> int | None:
        """Events that were overwritten before they were kept."""
        return max(int(self.told.get("lost", 0)), self.inside.condition.tally.lost) if self.inside else None

    @cached_property
    def ttft(self) -> dict[str, float]:
        """Request -> ns, in the order of arrival; from inside where there is a recording, else as the client saw it."""
        if self.inside is None:
            return self.client_ttft
        timed = self.inside.timed
        return {key_of(timed.text(row)): float(ns) for row, ns in enumerate(timed.ttft.tolist())}

    @cached_property
    def client_ttft(self) -> dict[str, float]:
        """Request -> ns, of those that were streamed."""
        return {key_of(each.request): float(each.ttft_ns) for each in self.records if each.ok and each.ttft_ns}

    @cached_property
    def tpot(self) -> dict[str, float]:
        """Request -> ns per token after the first."""
        if self.inside is None:
            return {key_of(each.request): ns for each in self.records if (ns := _tpot(each)) is not None}
        timed = self.inside.timed
        return {key_of(timed.text(row)): float(ns) for row, ns in enumerate(timed.tpot) if not np.isnan(ns)}

    def percentile(self, percent: int) -> Estimate | None:
        """Of the time to first token."""
        return self._percentiles["ttft", percent]

    def client_percentile(self, percent: int) -> Estimate | None:
        """The same as the client saw it."""
        return self._percentiles["client", percent]

    def tpot_percentile(self, percent: int) -> Estimate | None:
        """Of the time per token."""
        return self._percentiles["tpot", percent]

    @cached_property
    def _percentiles(self) -> dict[tuple[str, int], Estimate | None]:
        """Of three pages, and after every cell, only once."""
        columns = {"ttft": self.ttft, "client": self.client_ttft, "tpot": self.tpot}
        return {(name, percent): percentile(np.array(list(values.values())), percent)
                for name, values in columns.items() for percent in FEWEST}  # fmt: skip

    @property
    def as_it_runs(self) -> str:
        """Connector and dispatch as the recording shows them; of what nobody recorded, so much."""
        if self.inside is None:
            return "not known: no recording"
        facts = self.inside.setup.facts
        mode = next((value for name in ("mode", "connector") if name in facts for value, _ in facts[name].values), "")
        both = self.inside.timed.knew[self.inside.timed.knew >= 0]
        if not len(both):
            return mode or "no request was handed over"
        knew = float((both == 1).mean())
        way = "sequential" if knew >= KNEW_ALWAYS else "early" if knew <= KNEW_NEVER else f"{knew:.0%} sequential"
        return f"{mode or 'connector not told'}, {way}" if mode != "pull" else "pull"


def key_of(request: str) -> str:
    """What a request is called in every mode, from an id that an engine may have added to."""
    found = KEY.findall(request)
    return str(found[-1]) if found else request


def read(folder: Path) -> Measured:
    """What is kept of a cell. InputError: it is something else."""
    cell, told = _told(folder / CELL)
    records = tuple(sorted(client.read(folder / CLIENT), key=lambda record: record.sent_ns))
    notes = tuple(map(str, told.get("faults", ())))
    if not (folder / RECORDING).exists():
        why = "no rings of these engines are on this host: client-side figures only"
        return Measured(cell, told, records, None, folder, (*notes, why))
    try:
        opened = open_sources([folder / RECORDING])
    except InputError as error:
        return Measured(cell, told, records, None, folder, (*notes, f"client-side figures only: {error}"))
    said = tuple(note.replace(f"{folder}/", "") for note in opened.notes)
    inside = inside_of(opened.events, f"{cell.name}-{told['salt']}-", said)
    if not len(inside.timed):
        why = "the recording times none of these requests: client-side figures only"
        return Measured(cell, told, records, None, folder, (*notes, *inside.notes, why))
    return Measured(cell, told, records, inside, folder, (*notes, *inside.notes))


def _told(path: Path) -> tuple[Cell, dict[str, Any]]:
    """The cell, and how it was measured. InputError: the file tells of none, or not of that which its folder is of."""
    try:
        told = json.loads(path.read_text(), parse_constant=_no_number)
        cell = Cell(**told.pop("cell"))
        whole = isinstance(told["salt"], str) and isinstance(told.get("faults", []), list)
        if not (whole and told["rate"] > 0 and told["requests"] > 0 and told.get("lost", 0) >= 0):
            raise ValueError("something in it is not what kvscope keeps there")
        if cell.name != path.parent.name or cell.mode not in (*MODES, TARGET.name):
            raise ValueError(f"it is of {cell.name}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no cell of a sweep ({type(error).__name__}: {error})") from None
    return cell, told


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def inside_of(events: Events, prefix: str, notes: tuple[str, ...]) -> Inside:
    """What of the events is of requests whose id holds `prefix`."""
    whole = split(events)
    mine = whole.select(np.array(sorted(whole.find(prefix)), int))
    timed = mine.select(mine.timed)
    return Inside(
        splits=mine,
        timed=timed,
        condition=gather_condition(mine),
        setup=gather_setup(events.processes),
        overlap=gather_overlap(timed),
        others=len(whole) - len(mine),
        notes=notes,
    )


def _tpot(record: ClientRecord) -> float | None:
    if not record.ok or len(record.token_ns) < 2 or record.output_tokens < 2:
        return None
    return (record.token_ns[-1] - record.token_ns[0]) / (record.output_tokens - 1)


def _why(record: ClientRecord) -> str:
    return (record.error or f"status {record.status}").strip().split("\n")[0][:120]
