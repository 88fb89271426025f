"""What has to be known of all recordings before anything is written: when they begin, and who is in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kvscope.analysis.setup import is_router
from kvscope.model.events import Process
from kvscope.probe.recording import HeadPart, Part, ProcessPart, RecordsPart
from kvscope.probe.vocabulary import LEG_CODE
from kvscope.sources.gathering import Identity, identity
from kvscope.sources.lifetimes import ALWAYS, NEVER
from kvscope.sources.records import Rows, process_of, records


@dataclass
class Member:
    """One process."""

    process: Process
    legs: Counter[int] = field(default_factory=Counter)
    """code of a leg -> events on it"""


class Survey:
    """Takes the parts of one recording after the other."""

    def __init__(self) -> None:
        self.members: dict[Identity, Member] = {}
        """In the order in which they were found."""
        self.first: dict[str, int] = {}
        """boot id -> the first event there, ns"""
        self.last: dict[str, int] = {}
        self.events = 0
        self.heads: list[dict[str, Any]] = []
        """What each recording says of itself; nothing if it is of an earlier version."""
        self._numbers: dict[int, tuple[Identity, str]] = {}

    def begin(self) -> None:
        """Another recording: its processes have numbers of their own."""
        self._numbers = {}
        self.heads.append({})

    def take(self, part: Part) -> None:
        """Note what is in it."""
        if isinstance(part, HeadPart):
            self.heads[-1] = part.info
        elif isinstance(part, ProcessPart):
            self._process(part.process, part.info)
        elif isinstance(part, RecordsPart) and part.process in self._numbers:
            self._records(records(part.raw), *self._numbers[part.process])

    def _process(self, number: int, info: Mapping[str, Any]) -> None:
        who = identity(info)
        self._numbers[number] = who, str(info.get("boot_id", ""))
        process = process_of(info)
        self.members.setdefault(who, Member(process)).process = process

    def _records(self, rows: Rows, who: Identity, host: str) -> None:
        rows = rows[(rows["moment"] != 0) & (rows["t"] > ALWAYS) & (rows["t"] < NEVER)]
        if not len(rows):
            return
        self.events += len(rows)
        begun, ended = int(rows["t"].min()), int(rows["t"].max())
        self.first[host] = min(begun, self.first.get(host, begun))
        self.last[host] = max(ended, self.last.get(host, ended))
        legs, counts = np.unique(rows["leg"], return_counts=True)
        self.members[who].legs.update(dict(zip(legs.tolist(), counts.tolist(), strict=True)))

    def engines(self) -> dict[str, str]:
        """Name or id of an engine -> what to call it: P1, D1, R1 by what it does, and P1.2 for its second start."""
        legs: dict[str, Counter[int]] = {}
        for member in self.members.values():
            legs.setdefault(member.process.engine, Counter()).update(member.legs)
        names: dict[str, str] = {}
        engines, starts = Counter[str](), Counter[str]()
        for member in self.members.values():
            engine, started = member.process.engine, member.process.engine_id
            if engine not in names:
                letter = _letter(member.process, legs[engine])
                engines[letter] += 1
                names[engine] = f"{letter}{engines[letter]}"
            if started and started not in names:
                starts[engine] += 1
                names[started] = f"{names[engine]}.{starts[engine]}"
        return names


def _letter(process: Process, legs: Counter[int]) -> str:
    prefill, decode = legs[LEG_CODE["prefill"]], legs[LEG_CODE["decode"]]
    if is_router(process) or (legs[LEG_CODE["router"]] and not prefill + decode):
        return "R"
    return "E" if prefill == decode else "P" if prefill > decode else "D"
