"""The same answers from events that keep coming: memory is bounded, and what that costs is counted.

Rows wait until both legs of their request have ended and nothing more of it can be under way; then they
are solved by the very functions that solve a recording, given out, and forgotten. Most requests are
solved once. What the quick look cannot settle (one leg, no handoff, a hung push) is swept up now and then.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from kvscope.core.clocks import Clocks
from kvscope.core.critical_path import Solution, ordered, solve
from kvscope.core.departure import legs_of, of_no_request, registration_ends, rows_of, texts_of, together, without
from kvscope.core.held import Held
from kvscope.core.hosts import ALONE, Hosts
from kvscope.core.legs import (
    CLEANUP,
    DECODE,
    ENGINE,
    NONE,
    PREFILL,
    REGISTRATION,
    ROUTER,
    leg_hash,
    roles,
    starts,
    within_bounds,
)
from kvscope.core.parked import Group, Parked, groups_of
from kvscope.core.recent import Recent
from kvscope.model.engines import gather_engines
from kvscope.model.events import Events, Process, picked, stacked
from kvscope.model.graph import NODE
from kvscope.model.membership import among, within
from kvscope.model.requests import STATES, State, Tally
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN

SECOND = 1_000_000_000
_NEVER = UNKNOWN

_ENDS = np.zeros((256, 8), bool)
_ENDS[MOMENT_CODE["finished"], DECODE] = True
_ENDS[MOMENT_CODE["released"], PREFILL] = True
_CHUNK = MOMENT_CODE["chunk"]
_RESERVED, _OVER = MOMENT_CODE["reserved"], [NODE["D.finished"], NODE["D.released"]]


@dataclass(frozen=True)
class Limits:
    """How long to wait and how much to hold. Times are ns of event time, behind the latest event."""

    settle_ns: int = SECOND
    """A request is closed this long after both its legs ended: events of its processes may come in any order."""
    sweep_ns: int = 5 * SECOND
    """How often, and after how much silence, requests that did not end on both legs are looked at."""
    give_up_ns: int = 600 * SECOND
    """A request of which nothing was heard for so long is given out as it stands."""
    answer_ns: int = SECOND // 20
    """A first token is told for good this long after it: what led to it has been read by then."""
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

    def __init__(self, limits: Limits | None = None, hosts: Hosts = ALONE) -> None:
        """hosts: `Hosts()` has the clocks of several hosts compared"""
        self.limits, self.hosts = limits or Limits(), hosts
        self.tally = Tally()
        """Everything counted so far."""
        self._processes: list[Process] = []
        self._index: dict[tuple[str, str, str, int], int] = {}
        self._engines = gather_engines(())
        self._texts: dict[int, str] = {}
        self._held, self._parked = Held(), Parked()
        self._answered = np.empty(0, np.uint64)  # legs of held requests whose first token was given out
        self._recent = Recent()
        self._new: list[np.ndarray] = []
        self._closed: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self._uncounted = Tally()
        self._clocks = Clocks()
        self._looked = self._swept = 0

    @property
    def now(self) -> int:
        """The latest event seen, ns."""
        return self._clocks.now

    @property
    def held(self) -> int:
        """Events in memory."""
        return len(self._held) + len(self._parked) + len(self._recent) + sum(len(rows) for rows in self._new)

    def feed(self, events: Events, now: int = UNKNOWN) -> list[Splits]:
        """Take a batch, in any order; returns what is over, possibly nothing. `now`: the clock, where it runs on."""
        return self._turn(looking=False)[0] if self._due(events, now) else []

    def advance(self, events: Events, now: int = UNKNOWN) -> tuple[list[Splits], Splits, Splits]:
        """As `feed`, and as `look`, for little more than one of them costs."""
        return self._turn(self._due(events, now), looking=True)

    def look(self) -> tuple[Splits, Splits]:
        """(requests that had their first token since the last look, those that have not had it or had it just now).

        The first are given out again, by `feed`, when they are over: until then they are as far as they have come.
        """
        return self._turn(due=False, looking=True)[1:]

    def _due(self, events: Events, now: int) -> bool:
        """Take a batch; whether it is time to give out."""
        self._clocks.move(self._processes, self._take(events), now, self.hosts.here)
        return self._clocks.passed - self._looked >= self.limits.settle_ns // 2 or self._crowded()

    def _turn(self, due: bool = True, *, looking: bool) -> tuple[list[Splits], Splits, Splits]:
        """Solve once what all of this needs: what is over (if it is due), and what a look shows (if one is wanted)."""
        self._gather()
        sweeping = due and (self._clocks.passed - self._swept >= self.limits.sweep_ns or self._full())
        self._wake(due, sweeping)
        closed, fresh = self._closed_rows(due), self._fresh(looking)
        solution = self._solve(picked(self._held.rows, closed | fresh | sweeping))
        done, spare = self._settled(solution, closed), np.empty(0, np.int64)
        if due:
            self._looked = self._clocks.passed
        if sweeping:
            done, spare = self._swept_up(solution, done)
        answered, waiting = self._news(solution, done) if looking else 2 * (np.zeros(len(done), bool),)
        first, left = self._as_of_now(solution, answered), self._as_of_now(solution, waiting)
        # What led to a first token of this instant may be read later: nothing is missing yet.
        left = replace(left, state=np.where(left.timed, left.state, np.uint8(STATES.index(State.UNFINISHED))))
        over = [self._give_out(solution, done, spare)] if due else []
        self._park(solution, answered)
        # Not before: a batch may reach further back than what is kept, and what is over in it needs the steps of then.
        self._recent.forget(self._clocks.passed - self.limits.history_ns)
        return [splits for splits in over if len(splits)], first, left

    def _full(self) -> bool:
        return len(self._held) + len(self._parked) > self.limits.max_rows

    def _wake(self, due: bool, sweeping: bool) -> None:
        """Hold again what is over, and, where all is swept, what was silent for too long."""
        now, limits = self._clocks.passed, self.limits
        groups = self._parked.settled(now, limits.settle_ns) if due else []
        if sweeping:
            groups = self._parked.groups if self._full() else groups
            groups += self._parked.overdue(now, limits.sweep_ns, limits.give_up_ns)
        self._hold_again({group.deciding: group for group in groups}.values())

    def _hold_again(self, groups: Collection[Group]) -> None:
        self._held.add(*self._parked.wake(groups))
        told = np.array([leg for group in groups for leg in group.legs], np.uint64)
        self._answered = np.concatenate((self._answered, told))

    def _park(self, solution: Solution, answered: np.ndarray) -> None:
        """Put requests by that answered and still run."""
        rows = solution.legs.rows
        if not answered.any():
            return
        ended = _ENDS[rows["moment"], rows["leg"]]
        groups = groups_of(solution, answered, ended, self._clocks.passed)
        groups = self._parked.accepted(group for group in groups if self._held.again.isdisjoint(group.legs))
        legs = np.array([leg for group in groups for leg in group.legs], np.uint64)
        if len(legs):
            mine = self._held.of(legs)
            self._parked.put(groups, picked(self._held.rows, mine), self._held.ids[mine])
            self._held.keep(~mine)

    def _fresh(self, looking: bool) -> np.ndarray:
        """(rows,) bool: of legs whose first token was not given out, and of the prefill legs that they share."""
        held = self._held
        if not looking:
            return np.zeros(len(held), bool)
        return np.asarray(held.with_prefill(~within(held.hash, self._answered)) | held.attempted)

    def _news(self, solution: Solution, done: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n,) requests whose first token has not been told, and those that have none, or had it this instant."""
        splits, joined, hashes = solution.splits, solution.joined, np.append(solution.legs.hash, np.uint64(0))
        told = within(hashes[joined.decode], self._answered) & (joined.decode != NONE)
        lately = splits.first_token > self._clocks.now - self.limits.answer_ns
        answered = splits.timed & ~lately & ~told & ~done
        seen = np.concatenate([leg[answered] for leg in legs_of(joined)])
        self._answered = np.concatenate((self._answered, solution.legs.hash[np.unique(seen[seen != NONE])]))
        return answered, (lately & ~told | splits.in_state(State.UNFINISHED)) & ~done

    def _as_of_now(self, solution: Solution, rows: np.ndarray) -> Splits:
        splits = ordered(solution.splits, rows)
        return replace(splits, tally=Tally(), texts=texts_of(splits, self._texts))

    def close(self) -> list[Splits]:
        """Give out everything that is left, as it stands."""
        self._gather()
        self._hold_again(self._parked.groups)
        solution = self._solve(self._held.rows)
        splits = self._give_out(solution, np.ones(len(solution.splits), bool), of_no_request(solution))
        left, self._uncounted = self._uncounted, Tally()
        splits = replace(splits, tally=splits.tally + left)
        return [splits] if len(splits) or left != Tally() else []

    def _crowded(self) -> bool:
        """So much is new that looking at everything held costs less than holding it."""
        return sum(map(len, self._new)) > max(16_384, len(self._held) // 2)

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
        rows = stacked(self._new)
        self._new.clear()
        role = roles(rows)
        scoped = role == ENGINE
        of_engines = picked(rows, scoped)
        self._recent.add(of_engines, self._clocks.passed - self._clocks.age(of_engines))
        self._count(Tally(events=len(of_engines)))
        rows, role = picked(rows, ~scoped), role[~scoped]
        hashes = leg_hash(self._engines.of_process[rows["process"]], rows["request"], role)
        ends = _ENDS[rows["moment"], rows["leg"]]
        put_by, woken = self._parked.take(rows, hashes, ends, self._clocks.passed - self._clocks.age(rows))
        rows, hashes = without(put_by, rows, hashes)
        self._hold_again(woken)
        late = self._late(rows, hashes)
        self._count(Tally(late=int(late.sum())))
        self._held.add(*without(late, rows, hashes))

    def _late(self, rows: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        """(n,) rows of legs that were closed. One that begins anew under the same id is another request."""
        newer, older = self._closed
        if not (met := [key for key in np.unique(hashes).tolist() if key in newer or key in older]):
            return np.zeros(len(rows), bool)
        late = within(hashes, np.setdiff1d(np.array(met, np.uint64), self._held.ids))
        anew = late & (starts(rows) | (roles(rows) == REGISTRATION))
        for key in set(hashes[anew].tolist()):
            after = (hashes == np.uint64(key)) & (rows["t"] > max(newer.get(key, _NEVER), older.get(key, _NEVER)))
            if (anew & after).any():
                newer.pop(key, None), older.pop(key, None)
                late &= ~after
        return late

    def _solve(self, rows: np.ndarray) -> Solution:
        solution = solve(self._events(rows), self._clocks.now, self._clocks.lag, self.hosts)
        self.hosts = self.hosts.after(solution.aligned)
        return solution

    def _events(self, rows: np.ndarray) -> Events:
        """Rows with the steps of the engines that computed a prompt among them in chunks, and the handshakes."""
        scoped = [self._recent.meetings()]
        chunks = rows["process"][rows["moment"] == _CHUNK]
        if len(chunks):
            engine = self._engines.of_process
            prefills = within(engine, np.unique(engine[chunks]))
            scoped.append(self._recent.steps(int(rows["t"].min()), prefills))
        processes = tuple(replace(process, lost=0, earlier=0) for process in self._processes)
        return Events(stacked((rows, *scoped)), processes, self._texts)

    def _closed_rows(self, due: bool) -> np.ndarray:
        """(rows,) bool: of legs that ended a while ago."""
        if not due:
            return np.zeros(len(self._held), bool)
        held, rows = self._held, self._held.rows
        over = _ENDS[rows["moment"], rows["leg"]] & (self._clocks.age(rows) >= self.limits.settle_ns)
        open_ = among(roles(rows), PREFILL, DECODE) & ~held.of_legs(held.legs_of(over))
        return np.asarray(~open_ & ~held.attempted)

    def _settled(self, solution: Solution, closed: np.ndarray) -> np.ndarray:
        """(n,) requests both of whose legs are closed, joined by a moment that carries both ids."""
        joined = solution.joined
        over = np.append(within(solution.legs.hash, self._held.hash[self._held.legs_of(closed)]), False)
        both = joined.told & over[joined.prefill] & over[joined.decode]
        # Children of one prompt share a prefill leg and are given out together.
        claimed = self._held.rows["peer"][~closed & (self._held.rows["moment"] == _RESERVED)]
        return np.asarray(both & ~within(solution.splits.peer_request, claimed))

    def _swept_up(self, solution: Solution, done: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n,) requests besides that ended on one leg or without a handoff, and those given up; legs of none."""
        self._swept = self._clocks.passed
        splits = solution.splits
        silent = splits.idle
        over = (solution.joined.decode == NONE) & (splits.state != STATES.index(State.UNFINISHED))
        over |= (splits.time[:, _OVER] != UNKNOWN).any(axis=1) | np.append(solution.cut, False)[solution.joined.decode]
        pinned = (solution.joined.prefill != NONE) & (splits.time[:, NODE["P.released"]] == UNKNOWN)
        done = done | over & (silent >= np.where(pinned, self.limits.linger_ns, self.limits.sweep_ns))
        given_up = ~done & ((silent >= self.limits.give_up_ns) | self._excess(solution, silent))
        self._count(Tally(evicted=int(given_up.sum())))
        self._drop_strays()
        return together(solution, done | given_up), self._cleanups(solution)

    def _cleanups(self, solution: Solution) -> np.ndarray:
        """Clean-up legs of which nothing was heard for a while."""
        legs = solution.legs
        over = legs.role == CLEANUP
        if over.any():
            over[legs.leg[self._clocks.age(legs.rows) < self.limits.sweep_ns]] = False
        return np.flatnonzero(over)

    def _drop_strays(self) -> None:
        """Router records and registrations that no leg came for."""
        held = self._held
        stray = among(roles(held.rows), ROUTER, REGISTRATION)
        stray &= self._clocks.age(held.rows) >= self.limits.give_up_ns
        self._count(Tally(events=int(stray.sum()), strays=int(held.legs_of(stray).sum())))
        if stray.any():
            held.keep(~stray)

    def _excess(self, solution: Solution, silent: np.ndarray) -> np.ndarray:
        """(n,) the longest silent requests, so many that a tenth of the room is free again."""
        excess = np.zeros(len(silent), bool)
        over = len(self._held) + len(self._parked) - self.limits.max_rows
        if over > 0:
            size = len(self._held) / max(1, len(silent))
            excess[np.argsort(-silent, kind="stable")[: int((over + self.limits.max_rows / 10) / size) + 1]] = True
        return excess

    def _give_out(self, solution: Solution, rows: np.ndarray, spare: np.ndarray) -> Splits:
        """The splits of these rows, with what was counted since the last; their events, and those of spare legs (which
        belong to no request), are forgotten."""
        joined, legs = solution.joined, solution.legs
        gone = np.concatenate([leg[rows] for leg in legs_of(joined)] + [spare])
        gone = legs.hash[np.unique(gone[gone != NONE])]
        ends = registration_ends(solution, rows)
        mine = rows_of(gone, ends, self._held.hash, self._held.leg, self._held.rows["t"])
        used = int(rows_of(gone, ends, legs.hash, legs.leg, legs.rows["t"]).sum())
        splits = ordered(solution.splits, rows)
        tally = Tally(
            events=used,
            duplicates=int(mine.sum() - used),
            strays=int((legs.role[spare] == ROUTER).sum()),
            cleanups=int((legs.role[spare] == CLEANUP).sum()),
            stale_matches=int(joined.stale[rows].sum()),
            order_violations=int(solution.violations[rows].sum()),
        )
        self._count(tally)
        self._forget(mine)
        given = Tally()
        if len(splits):
            given, self._uncounted = self._uncounted, Tally()
        return replace(splits, tally=given, texts=texts_of(splits, self._texts))

    def _forget(self, mine: np.ndarray) -> None:
        newer, held = self._closed[0], self._held
        if mine.any():
            some = held.row_of_each(mine)
            end = self._clocks.now - self._clocks.age(held.rows)[mine].min()
            ends = end - self._clocks.lag[held.rows["process"][some]]  # the same instant by the clock of each
            newer.update(zip(held.ids[some].tolist(), ends.tolist(), strict=True))
            held.keep(~mine)
        self._answered = self._answered[within(self._answered, held.hash)]
        if len(newer) > self.limits.remembered:
            self._closed = ({}, newer)
        if len(self._texts) > 4096 + 4 * (len(self._held) + len(self._parked)):
            self._texts = self._needed_texts()

    def _needed_texts(self) -> dict[int, str]:
        """Texts of requests still held, and of engines."""
        named = {process.engine for process in self._processes} | {process.engine_id for process in self._processes}
        rows = stacked((self._held.rows, self._parked.rows))
        keys = set(rows["request"].tolist()) | set(rows["peer"].tolist())
        return {key: text for key, text in self._texts.items() if key in keys or text in named}
