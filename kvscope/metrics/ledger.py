"""Adds up what a stream of events gives, so that it can be told at any time. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kvscope.analysis.objectives import Objectives
from kvscope.metrics.catalogue import ODDITIES
from kvscope.metrics.engines import Contacts, add_engine_events
from kvscope.metrics.flight import look_at
from kvscope.metrics.labels import ENGINE, PAIR, UNTOLD
from kvscope.metrics.pairs import Places, add_pairs
from kvscope.metrics.regret import Loads, add_regret
from kvscope.metrics.requests import add_requests, over_of
from kvscope.metrics.roll import Engine, Key, Roll, key_of
from kvscope.metrics.tables import Store
from kvscope.metrics.telling import Told, facts_of
from kvscope.model.clockpair import ClockPair, bound_between
from kvscope.model.events import Events, Process
from kvscope.model.requests import Tally
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import UNKNOWN

MOST_BLOCKS = 1 << 53
"""KV blocks that an engine may say it has: more cannot be told exactly, and are a mistake."""


class Ledger:
    """Owns all that is told. One thread at a time.

    What happened before `since` (ns of the events' clock) is not counted: whoever read then has counted it.
    """

    def __init__(self, objectives: Objectives | None = None, since: int = UNKNOWN) -> None:
        self.store, self.roll, self.places = Store(), Roll(), Places()
        self._objectives, self._since = objectives, since
        self._contacts, self._loads = Contacts(), Loads()
        self._lost: dict[Key, int] = {}
        self._clocks: tuple[ClockPair, ...] = ()

    def recall(self, processes: Sequence[Process]) -> None:
        """What these have lost until now was counted before."""
        self._lost |= {key_of(process): process.lost for process in processes}

    def take(self, events: Events, over: Sequence[Splits], now: int, wall_ns: int) -> None:
        """A batch, with the requests that are over by it. wall_ns: what to add to `now` to get the time of day"""
        self.roll.see(events.processes, now)
        self._losses(events.processes, now)
        fresh = events
        if len(events) and self._since != UNKNOWN:
            fresh = Events(events.rows[events.rows["t"] >= self._since], events.processes, events.texts)
        if len(fresh):
            self._hear(fresh, now, wall_ns)
            add_engine_events(self.store, fresh, self.roll, self._contacts, now)
            seats = self.roll.seats(fresh.processes, fresh.rows["process"], now)
            self._loads.add(fresh.rows, seats[fresh.rows["process"], 0], now)
        for splits in over:
            ended = splits.last_moment[:, 2] >= self._since
            if ended.any():
                self._close(splits if ended.all() else splits.select(ended), now, (now + wall_ns) / 1e9)
        self._let_go(now)

    def _close(self, splits: Splits, now: int, at: float) -> None:
        self._clocks = splits.clocks or self._clocks
        used = np.concatenate((splits.prefill_engine, splits.decode_engine))
        seats = self.roll.seats(splits.engines, used, now)
        lone = bool((seats[used, 1] < 0).any())
        nobody = self.roll.group_of(UNTOLD, UNTOLD) if lone else self.roll.groups.rest
        over = over_of(splits, seats, nobody, at)
        add_requests(self.store, over, self._objectives)
        add_pairs(self.store, over, self.places)
        groups = {engine.row: self.roll.group(engine) for engine in self._named()}
        add_regret(self.store, over, self._loads, groups)

    def count(self, tally: Tally) -> None:
        """What was counted beside the results since the last time."""
        oddities = self.store.table("oddities_total")
        for column, name in enumerate(ODDITIES):
            oddities.values[0, column] += getattr(tally, name)
        self.store.table("clock_violations_total").values[0, 0] += tally.order_violations

    def spend(self, reading_ns: int, metrics_ns: int) -> None:
        """CPU time of kvscope's own."""
        self.store.table("reader_cpu_seconds_total").values[0] += (reading_ns, metrics_ns)

    def look(self, waiting: Splits, now: int) -> None:
        """Requests that have no first token and are not over, as they stand."""
        look_at(self.store, waiting, self.roll, now)

    def incidents(self, counts: Mapping[str, int], savable: bool) -> None:
        """How many were saved, and so on, so far: kind -> how many. savable: whether one could be now"""
        self.store.table("incidents_savable").set(0, 0, float(savable))
        table = self.store.table("incidents_total")
        for column, (kind,) in enumerate(table.metric.columns):
            table.values[0, column] = counts.get(kind, 0)

    def read(self, readable: bool, refused: int) -> None:
        """How reading went."""
        self.store.table("rings_readable").set(0, 0, float(readable))
        self.store.table("rings_refused").set(0, 0, float(refused))

    def told(self) -> Told:
        """All of it, as it stands."""
        self._states()
        rows = {ENGINE: self.roll.rows.told(), PAIR: self.places.rows.told()}
        return Told(
            store=self.store.copied(),
            labels=rows | {self.roll.groups.scope: self.roll.groups.told()},
            facts={engine.row: facts_of(engine.facts) for engine in self._named()},
            judged=self._objectives is not None,
        )

    def _named(self) -> list[Engine]:
        """Engines that have a row of their own."""
        return [engine for engine in self.roll.engines.values() if 0 <= engine.row < self.roll.rows.rest]

    def _hear(self, events: Events, now: int, wall_ns: int) -> None:
        """When each engine was heard last."""
        seats = self.roll.seats(events.processes, events.rows["process"], now)
        latest = np.full(len(self.store.table("engine_recording").values), UNKNOWN)
        row = seats[events.rows["process"], 0]
        np.maximum.at(latest, row[row >= 0], np.minimum(events.rows["t"][row >= 0], now))
        heard = np.flatnonzero(latest != UNKNOWN)
        self.store.table("engine_last_event_timestamp_seconds").values[heard, 0] = latest[heard] + wall_ns

    def _losses(self, processes: Sequence[Process], now: int) -> None:
        """What rings lost since the last time."""
        for index, process in enumerate(processes):
            before = self._lost.get(key_of(process), 0)
            if process.lost > before:
                self._lost[key_of(process)] = process.lost
                row = self.roll.seats(processes, np.array([index]), now)[index, 0]
                if row >= 0:
                    self.store.table("engine_events_lost_total").values[row, 0] += process.lost - before

    def _let_go(self, now: int) -> None:
        for row in self.roll.expired(now):
            self.store.clear(ENGINE, row)
            self._loads.drop(row)
        for row in self.places.elect(now):
            self.store.clear(PAIR, row)

    def _states(self) -> None:
        """Gauges that follow from what the engines are. What an engine had to do when it ended, it has no more."""
        recording, blocks = self.store.table("engine_recording"), self.store.table("engine_kv_blocks")
        for engine in self._named():
            recording.set(engine.row, 0, float(engine.recording))
            told = engine.facts.get("kv_blocks")
            blocks.set(engine.row, 0, float(told) if isinstance(told, int) and 0 <= told <= MOST_BLOCKS else np.nan)
            starts = self.store.table("engine_starts_total")
            starts.values[engine.row, 0] = max(starts.values[engine.row, 0], len(engine.starts))
            if engine.ended is not None:
                for name in ("engine_requests", "engine_kv_blocks_free", "engine_writer_backlog_requests"):
                    self.store.table(name).clear(engine.row)
        hosts = {process.host for engine in self.roll.engines.values() for process in engine.processes.values()}
        self.store.table("clock_bound_seconds").set(0, 0, bound_between(hosts - {""}, self._clocks))
