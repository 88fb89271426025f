"""The same answers from events that keep coming: memory is bounded, and what that costs is counted.

Rows wait until both legs of their request have ended and nothing more of it can be under way; then they
are solved by the very functions that solve a recording, given out, and forgotten. Most requests are
solved once. What the quick look cannot settle (one leg, no handoff, a hung push) is swept up now and then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kvscope.core.critical_path import Solution, ordered, solve
from kvscope.core.legs import (
    DECODE,
    ENGINE,
    NONE,
    PREFILL,
    REGISTRATION,
    ROUTER,
    by_attempt,
    leg_hash,
    roles,
    starts,
    within_bounds,
)
from kvscope.model.engines import gather_engines
from kvscope.model.events import EVENT, Events, Process
from kvscope.model.graph import NODE
from kvscope.model.requests import STATES, State, Tally
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN

SECOND = 1_000_000_000
_NEVER = UNKNOWN

_ENDS = np.zeros((256, 8), bool)
_ENDS[MOMENT_CODE["finished"], DECODE] = True
_ENDS[MOMENT_CODE["released"], PREFILL] = True
_CHUNK, _STEP = MOMENT_CODE["chunk"], MOMENT_CODE["step"]
_MEETINGS = (MOMENT_CODE["handshake_begun"], MOMENT_CODE["handshake_ended"])
_RESERVED = MOMENT_CODE["reserved"]


@dataclass(frozen=True)
class Limits:
    """How long to wait and how much to hold. Times are ns of event time, behind the latest event."""

    settle_ns: int = SECOND
    """A request is closed this long after both its legs ended: events of its processes may come in any order."""
    sweep_ns: int = 5 * SECOND
    """How often, and after how much silence, requests that did not end on both legs are looked at."""
    give_up_ns: int = 600 * SECOND
    """A request of which nothing was heard for so long is given out as it stands."""
    linger_ns: int = 60 * SECOND
    """How long a finished request waits for prefill to free its blocks: the lease, mostly."""
    history_ns: int = 60 * SECOND
    """Steps and handshakes are kept so long: prefill gaps of a longer prefill are not seen."""
    max_rows: int = 2_000_000
    """Events held; the longest silent requests are given up to keep to it."""
    remembered: int = 200_000
    """Closed legs remembered, at least, to tell late events from new requests."""


class Stream:
    """Feed it batches of events; it gives out splits of the requests that are over."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.tally = Tally()
        """Everything counted so far."""
        self._processes: list[Process] = []
        self._index: dict[tuple[str, str, str, int], int] = {}
        self._engines = gather_engines(())
        self._texts: dict[int, str] = {}
        self._rows = np.empty(0, EVENT)
        self._ids = np.empty(0, np.uint64)  # what each row's engine, id and role come to
        self._hashes = np.empty(0, np.uint64)  # the same, but for later attempts under one id
        self._again = np.empty(0, np.uint64)  # ids of which several attempts are held
        self._scoped = np.empty(0, EVENT)
        self._new: list[np.ndarray] = []
        self._closed: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self._uncounted = Tally()
        self._now = UNKNOWN
        self._looked = self._swept = UNKNOWN

    @property
    def now(self) -> int:
        """The latest event seen, ns."""
        return self._now

    @property
    def held(self) -> int:
        """Events in memory."""
        return len(self._rows) + len(self._scoped) + sum(len(rows) for rows in self._new)

    def feed(self, events: Events) -> list[Splits]:
        """Take a batch, in any order; returns what is over, possibly nothing."""
        rows = self._take(events)
        if len(rows):
            self._now = max(self._now, int(rows["t"].max()))
        if self._looked == UNKNOWN:
            self._looked = self._swept = self._now
        if self._now - self._looked < self.limits.settle_ns // 2 and not self._crowded():
            return []
        self._gather()
        self._looked = self._now
        done = [self._quick()]
        if self._now - self._swept >= self.limits.sweep_ns or len(self._rows) > self.limits.max_rows:
            done.append(self._sweep())
        return [splits for splits in done if len(splits)]

    def waiting(self) -> Splits:
        """Requests that are not over: their number, age and last moment belong beside every percentile."""
        self._gather()
        splits = solve(self._events(self._rows), self._now).splits
        return ordered(splits.select(splits.in_state(State.UNFINISHED)))

    def close(self) -> list[Splits]:
        """Give out everything that is left, as it stands."""
        self._gather()
        solution = solve(self._events(self._rows), self._now)
        splits = self._give_out(solution, np.ones(len(solution.splits), bool))
        return [splits] if len(splits) or self._uncounted != Tally() else []

    def _crowded(self) -> bool:
        """So much is new that looking at everything held costs less than holding it."""
        return sum(map(len, self._new)) > max(16_384, len(self._rows) // 2)

    def _take(self, events: Events) -> np.ndarray:
        """Renumber the processes, learn the texts, put the rows by."""
        where = np.array([self._process(process) for process in events.processes], np.uint32)
        rows, bad = within_bounds(events)
        self._count(Tally(out_of_bounds=bad))
        rows = rows.copy()
        rows["process"] = where[rows["process"]] if len(rows) else 0
        self._texts.update(events.texts)
        self._new.append(rows)
        return rows

    def _process(self, process: Process) -> int:
        key = (process.engine, process.engine_id, process.host, process.pid)
        if key not in self._index:
            self._index[key] = len(self._processes)
            self._processes.append(process)
            self._count(Tally(lost=process.lost, earlier=process.earlier))
            self._engines = gather_engines(tuple(self._processes))
            return self._index[key]
        known = self._processes[self._index[key]]
        if process.lost > known.lost:
            self._count(Tally(lost=process.lost - known.lost))
        self._processes[self._index[key]] = process
        return self._index[key]

    def _count(self, tally: Tally) -> None:
        if tally != Tally():
            self.tally += tally
            self._uncounted += tally

    def _gather(self) -> None:
        """Sort what came into requests and engines; drop what comes too late."""
        if not self._new:
            return
        rows = _stack(self._new)
        self._new.clear()
        role = roles(rows)
        scoped = role == ENGINE
        keep = scoped & np.isin(rows["moment"], (_STEP, *_MEETINGS))
        self._scoped = _stack((self._scoped, rows[keep]))
        self._scoped = self._scoped[self._scoped["t"] >= self._now - self.limits.history_ns]
        self._count(Tally(events=int(scoped.sum())))
        rows, role = rows[~scoped], role[~scoped]
        hashes = leg_hash(self._engines.of_process[rows["process"]], rows["request"], role)
        late = self._late(rows, hashes)
        self._count(Tally(late=int(late.sum())))
        self._rows = _stack((self._rows, rows[~late]))
        self._ids = np.concatenate((self._ids, hashes[~late]))
        self._tell_attempts()

    def _tell_attempts(self) -> None:
        self._hashes, again = by_attempt(self._rows, self._ids)
        self._again = np.fromiter(again, np.uint64, len(again))

    def _late(self, rows: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        """(n,) rows of legs that were closed. One that begins anew under the same id is another request."""
        unique, inverse = np.unique(hashes, return_inverse=True)
        newer, older = self._closed
        ends = [max(newer.get(key, _NEVER), older.get(key, _NEVER)) for key in unique.tolist()]
        end = np.where(np.isin(unique, self._ids), _NEVER, np.array(ends, np.int64))[inverse]
        anew = starts(rows) | (roles(rows) == REGISTRATION)
        for key in set(hashes[anew & (end != _NEVER) & (rows["t"] > end)].tolist()):
            newer.pop(key, None)
            older.pop(key, None)
            end[(hashes == np.uint64(key)) & (rows["t"] > end)] = _NEVER
        return np.asarray(end != _NEVER)

    def _events(self, rows: np.ndarray) -> Events:
        """Rows with the steps of the engines that computed a prompt among them in chunks, and the handshakes."""
        scoped = self._scoped[np.isin(self._scoped["moment"], _MEETINGS)]
        chunks = rows["process"][rows["moment"] == _CHUNK]
        if len(chunks):
            engine = self._engines.of_process
            steps = self._scoped[self._scoped["moment"] == _STEP]
            steps = steps[np.isin(engine[steps["process"]], np.unique(engine[chunks]))]
            scoped = _stack((scoped, steps[steps["t"] >= rows["t"].min()]))
        processes = tuple(replace(process, lost=0, earlier=0) for process in self._processes)
        return Events(_stack((rows, scoped)), processes, self._texts)

    def _quick(self) -> Splits:
        """Requests both of whose legs have ended, joined by a moment that carries both ids."""
        settled = self._rows["t"] <= self._now - self.limits.settle_ns
        ended = self._hashes[_ENDS[self._rows["moment"], self._rows["leg"]] & settled]
        role = roles(self._rows)
        legs = (role == PREFILL) | (role == DECODE)
        open_ = legs & ~np.isin(self._hashes, ended)
        chosen = ~open_ & ~np.isin(self._ids, self._again)  # attempts are told apart only side by side
        solution = solve(self._events(self._rows[chosen]), self._now)
        joined = solution.joined
        both = joined.told & (joined.prefill != NONE) & (joined.decode != NONE)
        # Children of one prompt share a prefill leg and are given out together.
        claimed = self._rows["peer"][open_ & (self._rows["moment"] == _RESERVED)]
        both &= ~np.isin(solution.splits.peer_request, claimed)
        return self._give_out(solution, both)

    def _sweep(self) -> Splits:
        """Requests that ended on one leg or without a handoff, and those given up."""
        self._swept = self._now
        solution = solve(self._events(self._rows), self._now)
        splits = solution.splits
        silent = self._now - splits.last_moment[:, 2]
        over = (solution.joined.decode == NONE) & (splits.state != STATES.index(State.UNFINISHED))
        over |= splits.time[:, NODE["D.finished"]] != UNKNOWN
        pinned = (solution.joined.prefill != NONE) & (splits.time[:, NODE["P.released"]] == UNKNOWN)
        done = over & (silent >= np.where(pinned, self.limits.linger_ns, self.limits.sweep_ns))
        given_up = ~done & ((silent >= self.limits.give_up_ns) | self._excess(solution, silent))
        self._count(Tally(evicted=int(given_up.sum())))
        self._drop_strays()
        return self._give_out(solution, _together(solution, done | given_up))

    def _drop_strays(self) -> None:
        """Router records and registrations that no leg came for."""
        stray = np.isin(roles(self._rows), (ROUTER, REGISTRATION))
        stray &= self._rows["t"] <= self._now - self.limits.give_up_ns
        self._count(Tally(events=int(stray.sum()), unmatched=len(np.unique(self._hashes[stray]))))
        self._keep(~stray)

    def _keep(self, rows: np.ndarray) -> None:
        self._rows, self._ids, self._hashes = self._rows[rows], self._ids[rows], self._hashes[rows]
        if len(self._again):
            self._tell_attempts()

    def _excess(self, solution: Solution, silent: np.ndarray) -> np.ndarray:
        """(n,) the longest silent requests, so many that a tenth of the room is free again."""
        excess = np.zeros(len(silent), bool)
        over = len(self._rows) - self.limits.max_rows
        if over > 0:
            size = len(self._rows) / max(1, len(silent))
            excess[np.argsort(-silent, kind="stable")[: int((over + self.limits.max_rows / 10) / size) + 1]] = True
        return excess

    def _give_out(self, solution: Solution, rows: np.ndarray) -> Splits:
        """The splits of these rows, with what was counted since the last; their events are forgotten."""
        joined, legs = solution.joined, solution.legs
        gone = np.concatenate(
            [leg[rows] for leg in (joined.prefill, joined.decode, joined.router, joined.registration)]
        )
        gone = legs.hash[np.unique(gone[gone != NONE])]
        ends = _registration_ends(solution, rows)
        mine = _of(gone, ends, self._hashes, self._rows["t"])
        used = int(_of(gone, ends, legs.hash[legs.leg], legs.rows["t"]).sum())
        splits = ordered(solution.splits.select(rows))
        tally = Tally(
            events=used,
            duplicates=int(mine.sum() - used),
            unmatched=int(splits.in_state(State.UNMATCHED).sum()),
            stale_matches=int(joined.stale[rows].sum()),
            order_violations=int(solution.violations[rows].sum()),
        )
        self._count(tally)
        self._forget(mine)
        given, self._uncounted = self._uncounted, Tally()
        return replace(splits, tally=given, texts=_texts_of(splits, self._texts))

    def _forget(self, mine: np.ndarray) -> None:
        end = int(self._rows["t"][mine].max(initial=_NEVER))
        newer = self._closed[0]
        newer.update(dict.fromkeys(np.unique(self._ids[mine]).tolist(), end))
        self._keep(~mine)
        if len(newer) > self.limits.remembered:
            self._closed = ({}, newer)
        if len(self._texts) > 4096 + 4 * len(self._rows):
            self._texts = self._needed_texts()

    def _needed_texts(self) -> dict[int, str]:
        """Texts of requests still held, and of engines."""
        named = {process.engine for process in self._processes} | {process.engine_id for process in self._processes}
        keys = set(self._rows["request"].tolist()) | set(self._rows["peer"].tolist())
        return {key: text for key, text in self._texts.items() if key in keys or text in named}


_RAW = np.dtype((np.void, EVENT.itemsize))


def _stack(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Rows one after the other, copied as bytes: field by field it takes five times as long."""
    return np.concatenate([np.ascontiguousarray(part).view(_RAW) for part in parts]).view(EVENT)


def _registration_ends(solution: Solution, rows: np.ndarray) -> dict[int, int]:
    """Of ids used again: registration leg -> the end of the requests given out; what came later is another's."""
    if not solution.legs.again:
        return {}
    ends: dict[int, int] = {}
    legs, last = solution.joined.registration[rows], solution.splits.last_moment[rows, 2]
    for leg, end in zip(legs[legs != NONE].tolist(), last[legs != NONE].tolist(), strict=True):
        key = int(solution.legs.hash[leg])
        ends[key] = max(end, ends.get(key, end))
    return ends


def _of(gone: np.ndarray, ends: dict[int, int], hashes: np.ndarray, t: np.ndarray) -> np.ndarray:
    """(n,) rows of the legs that go."""
    mine = np.isin(hashes, gone)
    for key, end in ends.items():
        mine &= (hashes != np.uint64(key)) | (t <= end)
    return mine


def _together(solution: Solution, rows: np.ndarray) -> np.ndarray:
    """(n,) rows of which all that share their prefill leg are chosen."""
    prefill = solution.joined.prefill
    waiting = np.unique(prefill[~rows])
    return np.asarray(rows & ((prefill == NONE) | ~np.isin(prefill, waiting)))


def _texts_of(splits: Splits, texts: dict[int, str]) -> dict[int, str]:
    """Only what these rows name, so that a split kept does not keep every text."""
    keys = np.concatenate((splits.request, splits.peer_request, splits.failure[:, 2].astype(np.uint64)))
    return {key: texts[key] for key in np.unique(keys).tolist() if key in texts}
