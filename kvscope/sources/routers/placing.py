"""Router logs onto the engines' clocks: by request, by the time of day that its host told, and how far that can be off.

A router tells the time of day. What an engine's API server stamps carries both clocks of its host, so a request is put
onto the clock of the host that its decode leg ran on. That the router's clock agrees with that host's cannot be seen,
but bounded: nothing arrives before it was sent, and no answer comes back before it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from kvscope.model.counting import count
from kvscope.model.events import EVENT, Events, Process
from kvscope.model.ids import router_id
from kvscope.model.wallclock import WallClock
from kvscope.probe.recorder import key64
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, THREAD_CODE, UNKNOWN, VALUES
from kvscope.sources.routers.log import Routed, RouterLog

PREFILL, DECODE, ROUTER = (LEG_CODE[name] for name in ("prefill", "decode", "router"))
TRACEPARENT = "traceparent"
_ARRIVED, _COMPUTED, _FIRST = (MOMENT_CODE[name] for name in ("arrived", "computed", "first_token"))
_SEEN = (_ARRIVED, _COMPUTED, _FIRST)
_QUEUED = MOMENT_CODE["queued"]
BEFORE = (("received", PREFILL), ("received", DECODE), ("prefill_sent", PREFILL), ("decode_sent", DECODE))
"""(moment of the router's, leg whose arrival it is before)"""
AFTER = (("prefill_returned", (PREFILL, _COMPUTED)), ("first_byte", (DECODE, _FIRST)))
"""(moment of the router's, what it is after)"""
MS = 1e6


@dataclass
class _Known:
    """A request as the engines saw it."""

    texts: dict[int, str] = field(default_factory=dict)
    """leg -> id there"""
    hosts: dict[int, str] = field(default_factory=dict)
    times: dict[tuple[int, int], int] = field(default_factory=dict)
    """(leg, moment) -> when it first was, ns of the host's clock"""

    @property
    def host(self) -> str:
        """Whose clock the router's moments are put on."""
        return self.hosts.get(DECODE, next(iter(self.hosts.values()), ""))


class Placing:
    """Takes the engines' events, then puts the logs' requests among them."""

    def __init__(self, logs: Iterable[RouterLog]) -> None:
        self._logs = list(logs)
        self._wanted = {routed.id for log in self._logs for routed in log.requests}
        self._traces = {trace for log in self._logs for trace, _ in log.spans}
        self._known: dict[str, _Known] = {}
        self._told: dict[str, list[tuple[str, str]]] = {}
        """trace -> (span, id that the router gave) as engines were told"""
        self._clock = WallClock()

    def take(self, events: Events) -> None:
        """Note the requests in it that a log speaks of."""
        self._clock.take(events)
        self._take_traces(events)
        rows = events.rows
        rows = rows[np.isin(rows["moment"], _SEEN) & np.isin(rows["leg"], (PREFILL, DECODE))]
        names = {key: router_id(text) for key, text in events.texts.items()}
        columns = (rows[name].tolist() for name in ("request", "leg", "moment", "t", "process"))
        for request, leg, moment, t, process in zip(*columns, strict=True):
            name = names.get(request, "")
            if name not in self._wanted:
                continue
            known = self._known.setdefault(name, _Known())
            known.texts.setdefault(leg, events.texts[request])
            known.hosts.setdefault(leg, events.processes[process].host)
            known.times[leg, moment] = min(t, known.times.get((leg, moment), t))

    def _take_traces(self, events: Events) -> None:
        if not self._traces or TRACEPARENT not in VALUES["queued"]:
            return
        rows = events.rows[events.rows["moment"] == _QUEUED]
        keys = rows["values"][:, VALUES["queued"].index(TRACEPARENT)]
        for request, key in zip(rows["request"].tolist(), keys.tolist(), strict=True):
            parts = events.texts.get(key & 0xFFFF_FFFF_FFFF_FFFF, "").split("-")
            if key != UNKNOWN and len(parts) > 2 and parts[1] in self._traces and request in events.texts:
                self._told.setdefault(parts[1], []).append((parts[2], router_id(events.texts[request])))

    def satisfied(self) -> bool:
        """Whether all was noted. If not, all is to be taken once more: some requests were found by their traces alone,
        and which those are is known only now."""
        found = {name for log in self._logs for name in self._by_trace(log).values()}
        more = found - self._wanted
        self._wanted |= more
        return not more

    def placed(self) -> tuple[Events, list[str]]:
        """The router's moments as events, and sentences on each log: what was matched, how exact it is."""
        gathered = _Gathered()
        notes: list[str] = []
        for log in self._logs:
            process = gathered.process(log)
            fit, matched = _Fit(), 0
            for routed, name in self._matched(log):
                known = self._known[name]
                moments = self._moments(routed, known)
                if moments is None:
                    continue
                matched += 1
                fit.take(moments, known)
                gathered.add(process, known.texts.get(DECODE, known.texts.get(PREFILL, name)), routed, moments)
            notes += [*log.notes, _told(log, matched, fit)]
        return gathered.events(), notes

    def _matched(self, log: RouterLog) -> Iterator[tuple[Routed, str]]:
        by_trace = self._by_trace(log)
        for number, routed in enumerate(log.requests):
            name = routed.id if routed.id in self._known else by_trace.get(number, "")
            if name in self._known:
                yield routed, name

    def _by_trace(self, log: RouterLog) -> dict[int, str]:
        """Which of a log's requests has which id, by the span that an engine was told; by the trace alone, where that
        holds one request on either side."""
        found: dict[int, str] = {}
        numbers: dict[str, set[int]] = {}
        for (trace, _), number in log.spans.items():
            numbers.setdefault(trace, set()).add(number)
        for trace, told in self._told.items():
            ids = {name for _, name in told}
            for span, name in told:
                if (trace, span) in log.spans:
                    found[log.spans[trace, span]] = name
            if len(ids) == 1 and len(numbers.get(trace, ())) == 1:
                found.setdefault(next(iter(numbers[trace])), next(iter(ids)))
        return found

    def _moments(self, routed: Routed, known: _Known) -> dict[str, int] | None:
        """moment -> ns of the host's clock; None where the host told no time of day."""
        host = known.host
        found = {moment: self._clock.moment(host, wall) for moment, wall in routed.moments.items()}
        told = {moment: t for moment, t in found.items() if t is not None}
        return told if len(told) == len(found) else None


class _Fit:
    """How far the router's clock can be from the engines': from what cannot be before what."""

    def __init__(self) -> None:
        self.low: int | None = None
        self.high: int | None = None
        """ns that may be added to the router's moments, at least and at most"""

    def take(self, moments: dict[str, int], known: _Known) -> None:
        """Note a request."""
        if len(set(known.hosts.values())) > 1:
            return
        for moment, leg in BEFORE:
            if moment in moments and (leg, _ARRIVED) in known.times:
                room = known.times[leg, _ARRIVED] - moments[moment]
                self.high = room if self.high is None else min(self.high, room)
        for moment, after in AFTER:
            if moment in moments and after in known.times:
                need = known.times[after] - moments[moment]
                self.low = need if self.low is None else max(self.low, need)


def _told(log: RouterLog, matched: int, fit: _Fit) -> str:
    sentence = (
        f"{log.name}: {matched:,} of {count(len(log.requests), 'request')} of {log.router}'s found among the engines'"
    )
    if log.coarse_ns and matched:
        sentence += f"; its times are up to {log.coarse_ns / MS:g} ms early"
    if not matched:
        return sentence
    return sentence + f"; {_bounds(fit, log.coarse_ns)}"


def _bounds(fit: _Fit, coarse: int) -> str:
    low = None if fit.low is None else fit.low - coarse
    if low is not None and low > 0:
        return f"its clock is at least {low / MS:.3f} ms behind the engines', and its moments are that much early"
    if fit.high is not None and fit.high < 0:
        return (
            f"its clock is at least {-fit.high / MS:.3f} ms ahead of the engines', and its moments are that much late"
        )
    bounds = [f"at most {-low / MS:.3f} ms ahead" if low is not None else ""]
    bounds += [f"at most {fit.high / MS:.3f} ms behind" if fit.high is not None else ""]
    told = " and ".join(filter(None, bounds))
    return f"its clock is {told}, by what follows on what" if told else "nothing bounds how far its clock is off"


class _Gathered:
    """Events in the making."""

    def __init__(self) -> None:
        self._processes: list[Process] = []
        self._rows: list[np.ndarray] = []
        self._texts: dict[int, str] = {}

    def process(self, log: RouterLog) -> int:
        """The number of its router; several logs of one are one."""
        names = [process.engine for process in self._processes]
        if log.router in names:
            return names.index(log.router)
        told = {"engine": log.router, "process": "router", "name": log.router, "version": log.version}
        started = {name: value for name, value in told.items() if value}
        self._processes.append(Process(log.router, started=started))
        return len(self._processes) - 1

    def add(self, process: int, request: str, routed: Routed, moments: dict[str, int]) -> None:
        """A request's moments, under the engine's id of it: that is found whatever the router called it."""
        rows = np.zeros(len(moments), EVENT)
        rows["t"], rows["moment"] = list(moments.values()), [MOMENT_CODE[moment] for moment in moments]
        rows["request"], rows["process"], rows["leg"] = self._key(request), process, ROUTER
        rows["thread"], rows["values"] = THREAD_CODE["router"], UNKNOWN
        if routed.trace and routed.span and TRACEPARENT in VALUES.get("received", ()):
            told = np.uint64(self._key(f"00-{routed.trace}-{routed.span}-01")).astype(np.int64)
            rows["values"][rows["moment"] == MOMENT_CODE["received"], VALUES["received"].index(TRACEPARENT)] = told
        self._rows.append(rows)

    def _key(self, text: str) -> int:
        key = key64(text)
        self._texts[key] = text
        return key

    def events(self) -> Events:
        """All of them."""
        rows = np.concatenate([np.empty(0, EVENT), *self._rows])
        return Events(rows, tuple(self._processes), self._texts)
