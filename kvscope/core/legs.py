"""Events put in order: one run of rows per leg of a request, bad and repeated ones counted and left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvscope.core.clocks import UNTOLD, hosts_of
from kvscope.model.engines import Engines, gather_engines
from kvscope.model.events import EVENT, Events, Process, picked
from kvscope.model.membership import among
from kvscope.model.requests import Tally
from kvscope.probe.layout import FLAG_CLEANUP
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, MOMENTS, VALUES

PREFILL, DECODE, ROUTER, ENGINE = (LEG_CODE[name] for name in ("prefill", "decode", "router", "engine"))
REGISTRATION = len(LEG_CODE)
"""Role of what prefill's writer stamps when it drains a registration: it knows the decode leg's id only."""
CLEANUP = REGISTRATION + 1
"""Role of what an API server queued to have another request's blocks freed: nobody asked for it."""
NONE = -1
_FAR = 2**62
_QUEUED = MOMENT_CODE["queued"]
_RECEIVED = MOMENT_CODE["registration_received"]
_STARTS = (MOMENT_CODE["arrived"], MOMENT_CODE["received"])

_MIX = np.uint64(0x9E37_79B9_7F4A_7C15)
_STIR = np.uint64(0xBF58_476D_1CE4_E5B9)


@dataclass(frozen=True)
class Legs:
    """Legs (engine, request, role) and their events. Engine-scoped events lie in one leg per engine."""

    rows: np.ndarray
    """(m,) EVENT, sorted by leg, moment, time; no duplicates"""
    leg: np.ndarray
    """(m,) i8: leg of each row"""
    moment: np.ndarray
    """(m,) u1: moment of each row; in the rows themselves, 88 bytes apart, looking for one takes ten times as long"""
    hash: np.ndarray
    """(legs,) u8, ascending"""
    engine: np.ndarray
    """(legs,) i4: index into `engines.engines`"""
    request: np.ndarray
    """(legs,) u8: request key"""
    role: np.ndarray
    """(legs,) u1: PREFILL, DECODE, ROUTER, ENGINE, REGISTRATION or CLEANUP"""
    hosts: np.ndarray
    """(legs, 2) i8: first and last number of the hosts whose clocks stamped it; UNTOLD where none is told"""
    again: dict[int, list[tuple[int, int]]]
    """hash of a leg's first attempt -> (when it began, hash) of the later ones under the same id"""
    engines: Engines
    texts: dict[int, str]
    tally: Tally

    def find(self, engine: np.ndarray, request: np.ndarray, role: int, when: np.ndarray) -> np.ndarray:
        """Leg index of each (engine, request) in that role, or NONE; of several attempts the one under way."""
        wanted = leg_hash(engine, request, np.full(len(request), role, np.uint8))
        if self.again:
            wanted = np.array(
                [self._attempt(one, t) for one, t in zip(wanted.tolist(), when.tolist(), strict=True)], np.uint64
            )
        at = np.searchsorted(self.hash, wanted)
        at[at == len(self.hash)] = 0
        return np.where(self.hash[at] == wanted, at, NONE) if len(self.hash) else np.full(len(request), NONE)

    def _attempt(self, first: int, when: int) -> int:
        begun = [hashed for began, hashed in self.again.get(first, ()) if began <= when]
        return begun[-1] if begun else first

    def of(self, moment: int, role: int) -> np.ndarray:
        """Row indices of one moment in one role."""
        at = np.flatnonzero(self.moment == moment)
        return np.asarray(at[self.role[self.leg[at]] == role])

    def texts_of(self, legs: np.ndarray) -> list[str]:
        """The request id of each leg."""
        keys = self.request[legs].tolist()
        return [f"#{key:016x}" if (known := self.texts.get(key)) is None else known for key in keys]


def value_column(moment: str, name: str) -> int:
    """Where `name` lies among the values of `moment`."""
    return VALUES[moment].index(name)


def gather_legs(events: Events) -> Legs:
    """Order the events of all requests; the order they came in leaves no trace."""
    engines = gather_engines(events.processes)
    rows, out_of_bounds = within_bounds(events)
    role = roles(rows)
    engine = engines.of_process[rows["process"]] if len(rows) else np.empty(0, np.int32)
    hashes, again = by_attempt(rows, leg_hash(engine, rows["request"], role))
    order, ties = _order(rows, hashes)
    order, duplicates = _without_duplicates(rows, order, ties)
    rows, hashes, role = picked(rows, order), hashes[order], role[order]
    changes = _changes(hashes)
    begins, leg = np.flatnonzero(changes), np.cumsum(changes) - 1
    tally = Tally(
        events=len(rows),
        lost=sum(process.lost for process in events.processes),
        earlier=sum(process.earlier for process in events.processes),
        duplicates=duplicates,
        out_of_bounds=out_of_bounds,
    )
    return Legs(
        rows=rows,
        leg=leg,
        moment=np.ascontiguousarray(rows["moment"]),
        hash=hashes[begins],
        engine=engine[order][begins],
        request=rows["request"][begins],
        role=_without_cleanups(rows, leg, role[begins]),
        hosts=_hosts(rows, begins, events.processes),
        again=again,
        engines=engines,
        texts=events.texts,
        tally=tally,
    )


def _without_cleanups(rows: np.ndarray, leg: np.ndarray, role: np.ndarray) -> np.ndarray:
    """(legs,) roles, those of clean-ups apart: the engine says so where it queues one."""
    told = np.flatnonzero(rows["flags"] & FLAG_CLEANUP)
    role[leg[told[rows["moment"][told] == _QUEUED]]] = CLEANUP
    return role


def _hosts(rows: np.ndarray, begins: np.ndarray, processes: tuple[Process, ...]) -> np.ndarray:
    """(legs, 2) first and last host of each leg."""
    numbers = hosts_of(processes)
    if not len(begins) or numbers.max() < 1:  # one host at most: nothing to tell apart
        return np.full((len(begins), 2), UNTOLD)
    host = numbers[rows["process"]]
    low = np.minimum.reduceat(np.where(host == UNTOLD, _FAR, host), begins)
    high = np.maximum.reduceat(host, begins)
    return np.stack((np.where(low == _FAR, UNTOLD, low), high), axis=1)


def starts(rows: np.ndarray) -> np.ndarray:
    """(n,) bool: the moments that begin a leg, each of which a leg has once."""
    return np.asarray(among(rows["moment"], *_STARTS) & (rows["request"] != 0))


def by_attempt(rows: np.ndarray, hashes: np.ndarray) -> tuple[np.ndarray, dict[int, list[tuple[int, int]]]]:
    """Hashes of their own for what came after a leg began a second time under the same id on the same engine."""
    at = np.flatnonzero(starts(rows))
    at = at[np.lexsort((rows["t"][at], hashes[at]))]
    hashed, t = hashes[at], rows["t"][at]
    repeated = np.flatnonzero((hashed[1:] == hashed[:-1]) & (t[1:] != t[:-1])) + 1
    again: dict[int, list[tuple[int, int]]] = {}
    if not repeated.size:
        return hashes, again
    found = hashes.copy()
    for position in repeated.tolist():
        first, began = int(hashed[position]), int(t[position])
        later = again.setdefault(first, [])
        mixed = (first ^ (len(later) + 1) * int(_STIR)) * int(_MIX) & 0xFFFF_FFFF_FFFF_FFFF
        found[(hashes == np.uint64(first)) & (rows["t"] >= began)] = mixed
        later.append((began, mixed))
    return found, again


def roles(rows: np.ndarray) -> np.ndarray:
    """(n,) u1 role of each row's leg."""
    role = np.where(rows["request"] == 0, np.uint8(ENGINE), rows["leg"])
    role[(rows["moment"] == _RECEIVED) & (role == PREFILL)] = REGISTRATION
    return role


def within_bounds(events: Events) -> tuple[np.ndarray, int]:
    """Rows that can be events, and how many could not: unknown codes, impossible times, unknown processes."""
    rows = events.rows
    # Each column once: in the rows they lie 104 bytes apart, and looking there is what takes the time.
    moment, t, leg = (np.ascontiguousarray(rows[name]) for name in ("moment", "t", "leg"))
    good = (moment > 0) & (moment < len(MOMENTS)) & (rows["process"] < len(events.processes))
    good &= (t > -_FAR) & (t < _FAR)
    good &= ((leg >= PREFILL) & (leg <= ROUTER)) | (rows["request"] == 0)
    bad = len(rows) - int(np.count_nonzero(good))
    return (picked(rows, good) if bad else rows), bad + events.impossible


def leg_hash(engine: np.ndarray, request: np.ndarray, role: np.ndarray) -> np.ndarray:
    """One u64 per (engine, request, role). Request keys are hashes already, so collisions stay negligible."""
    where = (engine.astype(np.uint64) * np.uint64(16) + role.astype(np.uint64) + np.uint64(1)) * _STIR
    mixed = (request ^ where ^ (where >> np.uint64(29))) * _MIX
    return np.asarray(mixed ^ (mixed >> np.uint64(32)))


def _order(rows: np.ndarray, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) indices of the rows by leg, moment, time; positions among these that are alike in all three to the one
    before."""
    keys = alike = [np.ascontiguousarray(rows["t"]), np.ascontiguousarray(rows["moment"]), hashes]
    if rows["rank"].any() or rows["peer_rank"].any():
        keys = [rows["peer_rank"], rows["rank"], *keys]
    order = np.lexsort(keys)
    ties = _ties([key[order] for key in alike])
    if not ties.size:
        return order, ties
    # Ties must not be broken by the order of arrival.
    rest = [rows["values"][:, column] for column in reversed(range(rows["values"].shape[1]))]
    rest += [rows[name] for name in ("flags", "reason", "state", "thread", "step", "peer")]
    return np.lexsort([*rest, *keys]), ties


def _ties(keys: Sequence[np.ndarray]) -> np.ndarray:
    """Positions at which all keys, (n,) each, are what they are at the one before."""
    return np.flatnonzero(np.logical_and.reduce([key[1:] == key[:-1] for key in keys])) + 1


def _without_duplicates(rows: np.ndarray, order: np.ndarray, ties: np.ndarray) -> tuple[np.ndarray, int]:
    if not ties.size:
        return order, 0
    same = _bytes(picked(rows, order[ties])) == _bytes(picked(rows, order[ties - 1]))
    repeated = ties[same.all(axis=1)]
    return np.delete(order, repeated), len(repeated)


def _bytes(rows: np.ndarray) -> np.ndarray:
    """Rows as bytes, whichever process index they were read under."""
    copy = np.ascontiguousarray(rows)
    copy["process"] = 0
    return copy.view(np.uint8).reshape(len(copy), EVENT.itemsize)


def _changes(values: np.ndarray) -> np.ndarray:
    """True where a value differs from the one before, and at the first."""
    return np.concatenate((np.ones(min(1, len(values)), bool), values[1:] != values[:-1]))
