"""Which prefill leg, which decode leg and which router record are one request.

A push is joined by prefill's `matched`, a pull by decode's `reserved`: both carry both ids. Only where
neither happened does the base id count, together with both engines. The role is the leg's, never the
engine's. A router can make an id up, and prefill's engine fail on it: what is made of nothing but failures
is joined only where nothing better is.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from kvscope.core.clocks import UNTOLD
from kvscope.core.legs import CLEANUP, DECODE, NONE, PREFILL, REGISTRATION, ROUTER, Legs, value_column
from kvscope.model.engines import DARK, NOT_TOLD
from kvscope.model.ids import base_id, router_id
from kvscope.model.requests import Tally
from kvscope.probe.vocabulary import MOMENT_CODE

__all__ = ["Joined", "base_id", "join", "router_id"]


@dataclass(frozen=True)
class Joined:
    """One row per request: a decode leg and its prefill leg, or whichever was seen."""

    prefill: np.ndarray
    """(n,) leg index or NONE; several rows share one where n > 1 children share a prefill"""
    decode: np.ndarray
    """(n,) leg index or NONE"""
    router: np.ndarray
    """(n,) leg index or NONE"""
    registration: np.ndarray
    """(n,) leg index or NONE: what prefill's writer saw of the registration"""
    told: np.ndarray
    """(n,) bool: paired by a moment that carries both ids"""
    stale: np.ndarray
    """(n,) bool: prefill matched a registration whose request was over"""
    retried: np.ndarray
    """(n,) bool: another attempt under the same base id took its prefill leg"""
    unaligned: np.ndarray
    """(n,) bool: stamped by clocks of several hosts, so that only moments of one host compare"""
    peer: np.ndarray
    """(n,) i4: of a row with one leg, the engine its other leg was told to be: index, DARK or NOT_TOLD"""
    tally: Tally


def join(legs: Legs) -> Joined:
    """Pair the legs. Row order depends on what the events are, never on how they came."""
    told = _peer_engines(legs)
    partner, by_moment, matched_at, ambiguous = _paired(legs, told)
    decode = np.flatnonzero(legs.role == DECODE)
    alone = _untaken(legs.role == PREFILL, partner[decode])
    prefill = np.concatenate((partner[decode], alone))
    decode = np.concatenate((decode, np.full(len(alone), NONE)))
    router, stray_records = _routers(legs, prefill, decode)
    single = (prefill == NONE) | (decode == NONE)
    peer = np.where(single, told[np.where(decode == NONE, prefill, decode)], NOT_TOLD).astype(np.int32)
    registration = _registrations(legs, prefill, decode, peer)
    unaligned = _unaligned(legs, prefill, decode, router, registration)
    stale = _stale(legs, decode, matched_at) & ~unaligned
    retried = _retried(legs, prefill, decode, stale)
    tally = replace(
        legs.tally,
        ambiguous=ambiguous,
        stale_matches=int(stale.sum()),
        strays=stray_records,
        cleanups=int((legs.role == CLEANUP).sum()),
    )
    return Joined(
        prefill,
        decode,
        router,
        registration,
        np.append(by_moment, False)[decode],
        stale,
        retried,
        unaligned,
        peer,
        tally,
    )


def restale(joined: Joined, legs: Legs, stale: np.ndarray) -> Joined:
    """The same joins, where (n,) matches turned out to be of requests that were over."""
    tally = replace(joined.tally, stale_matches=int(stale.sum()))
    return replace(joined, stale=stale, retried=_retried(legs, joined.prefill, joined.decode, stale), tally=tally)


def _paired(legs: Legs, told: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """(legs,) decode leg -> prefill leg; whether a moment said so; the time of the match. And refused joins."""
    partner = np.full(len(legs.hash), NONE)
    by_moment, whole = np.zeros(len(legs.hash), bool), ~_phantoms(legs)
    for usable in (whole,) if whole.all() else (whole, np.ones_like(whole)):
        before = partner != NONE
        matched_at, ambiguous = _by_moment(legs, partner, usable)
        by_moment |= ~before & (partner != NONE)
        ambiguous += _by_base_id(legs, partner, told, usable)
    return partner, by_moment, matched_at, ambiguous


def _untaken(legs: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Indices of (legs,) bool, without those taken; NONE may be among these."""
    free = np.append(legs, False)
    free[taken] = False
    return np.flatnonzero(free[:-1])


def _phantoms(legs: Legs) -> np.ndarray:
    """(legs,) prefill legs of which nothing is seen but failures."""
    failed = legs.of(MOMENT_CODE["failed"], PREFILL)
    if not len(failed):
        return np.zeros(len(legs.hash), bool)
    failures = np.bincount(legs.leg[failed], minlength=len(legs.hash))
    return np.asarray((failures > 0) & (failures == np.bincount(legs.leg, minlength=len(legs.hash))))


def _unaligned(legs: Legs, *seats: np.ndarray) -> np.ndarray:
    """(n,) rows of whose legs some were stamped on different hosts."""
    if legs.hosts.max(initial=UNTOLD) == UNTOLD:
        return np.zeros(len(seats[0]), bool)
    first, last = np.append(legs.hosts, [[UNTOLD, UNTOLD]], axis=0)[np.stack(seats)].transpose(2, 0, 1)
    first = np.where(first == UNTOLD, np.iinfo(np.int64).max, first)
    return np.asarray(last.max(axis=0) > first.min(axis=0))


def _registrations(legs: Legs, prefill: np.ndarray, decode: np.ndarray, peer: np.ndarray) -> np.ndarray:
    """(n,) the registration as prefill's engine saw it: under the decode leg's id, or already under its own."""
    engine = np.where(prefill == NONE, np.maximum(peer, 0), np.append(legs.engine, 0)[prefill])
    requests = np.append(legs.request, np.uint64(0))
    found = np.full(len(prefill), NONE)
    for leg in (prefill, decode):
        seen = legs.find(engine, requests[leg], REGISTRATION, np.zeros(len(leg), np.int64))
        found = np.where((leg != NONE) & (seen != NONE), seen, found)
    return found


def _peer_engines(legs: Legs) -> np.ndarray:
    """(legs,) the engine each leg was told its peer is, by whichever of its moments names one."""
    told = np.full(len(legs.hash), NOT_TOLD, np.int32)
    for role, moment in (
        (DECODE, "registration_sent"),
        (DECODE, "reserved"),
        (DECODE, "queued"),
        (PREFILL, "matched"),
    ):
        at = legs.of(MOMENT_CODE[moment], role)
        named = _named(legs, at, moment)
        told[legs.leg[at][named != NOT_TOLD]] = named[named != NOT_TOLD]
    return told


def _named(legs: Legs, at: np.ndarray, moment: str) -> np.ndarray:
    return legs.engines.resolve(legs.rows["values"][at, value_column(moment, "peer_engine")], legs.texts)


def _by_moment(legs: Legs, partner: np.ndarray, usable: np.ndarray) -> tuple[np.ndarray, int]:
    """Pair by `matched` and `reserved`. (legs,) the time of each decode leg's match, and refused joins."""
    when = np.full(len(legs.hash), np.iinfo(np.int64).max)
    matched, ambiguous = legs.of(MOMENT_CODE["matched"], PREFILL), 0
    matched = matched[np.argsort(legs.rows["t"][matched], kind="stable")[::-1]]  # the earliest is written last
    decode, refused = _other(legs, matched, "matched", DECODE, usable)
    seen = decode != NONE
    partner[decode[seen]] = legs.leg[matched][seen]
    when[decode[seen]] = legs.rows["t"][matched][seen]
    ambiguous += refused
    reserved = legs.of(MOMENT_CODE["reserved"], DECODE)
    reserved = reserved[(legs.rows["peer"][reserved] != 0) & (partner[legs.leg[reserved]] == NONE)]
    prefill, refused = _other(legs, reserved, "reserved", PREFILL, usable)
    seen = prefill != NONE
    partner[legs.leg[reserved][seen]] = prefill[seen]
    return when, ambiguous + refused


def _other(legs: Legs, at: np.ndarray, moment: str, role: int, usable: np.ndarray) -> tuple[np.ndarray, int]:
    """The usable leg that each row's peer key means: on the engine it names, else the only one with that id."""
    engine, peer = _named(legs, at, moment), legs.rows["peer"][at]
    usable = usable & (legs.role == role)
    refused, untold = 0, np.flatnonzero(engine == NOT_TOLD)
    if len(untold):
        engine = engine.copy()
        engine[untold], refused = _only_engines(legs, usable, peer[untold])
    exact = legs.find(np.maximum(engine, 0), peer, role, legs.rows["t"][at])
    return np.where((engine >= 0) & np.append(usable, False)[exact], exact, NONE), refused


def _only_engines(legs: Legs, usable: np.ndarray, requests: np.ndarray) -> tuple[np.ndarray, int]:
    """(n,) the only engine that has a usable leg of each request, else NONE; of how many there are several."""
    mine = np.flatnonzero(usable)
    pairs = np.unique(np.stack((legs.request[mine], legs.engine[mine].astype(np.uint64)), axis=1), axis=0)
    low, high = (np.searchsorted(pairs[:, 0], requests, side) for side in ("left", "right"))
    only = np.append(pairs[:, 1].astype(np.int64), NONE)[np.where(high - low == 1, low, len(pairs))]
    return only, int((high - low > 1).sum())


def _by_base_id(legs: Legs, partner: np.ndarray, told: np.ndarray, usable: np.ndarray) -> int:
    """Pair what no moment paired, where base id and engines leave exactly one choice; count the refusals."""
    decode = np.flatnonzero((legs.role == DECODE) & (partner == NONE) & (told != DARK))
    free = _untaken(usable & (legs.role == PREFILL), partner)
    if not len(decode) or not len(free):
        return 0
    prefills: defaultdict[str, list[int]] = defaultdict(list)
    decodes: defaultdict[str, list[int]] = defaultdict(list)
    for by_base, found in ((prefills, free), (decodes, decode)):
        for leg, text in zip(found.tolist(), legs.texts_of(found), strict=True):
            by_base[base_id(text)].append(leg)
    refused = 0
    for base, waiting in decodes.items():
        for leg in waiting:
            fits = [other for other in prefills.get(base, ()) if _fit(legs, told, other, leg)]
            rivals = [other for other in waiting if fits and _fit(legs, told, fits[0], other)]
            if len(fits) == 1 and len(rivals) == 1:
                partner[leg] = fits[0]
            refused += len(fits) > 1 or len(rivals) > 1
    return refused


def _fit(legs: Legs, told: np.ndarray, prefill: int, decode: int) -> bool:
    """Neither leg was told of an engine that is not the other's."""
    return told[decode] in (NOT_TOLD, legs.engine[prefill]) and told[prefill] in (NOT_TOLD, legs.engine[decode])


def _stale(legs: Legs, decode: np.ndarray, matched_at: np.ndarray) -> np.ndarray:
    """(n,) rows whose decode leg was over before prefill matched it."""
    over = np.full(len(legs.hash), np.iinfo(np.int64).max)
    at = legs.of(MOMENT_CODE["finished"], DECODE)
    np.minimum.at(over, legs.leg[at], legs.rows["t"][at])
    matched = matched_at[decode]
    return np.asarray((decode != NONE) & (matched < np.iinfo(np.int64).max) & (over[decode] < matched))


def _retried(legs: Legs, prefill: np.ndarray, decode: np.ndarray, stale: np.ndarray) -> np.ndarray:
    """(n,) decode legs without prefill, under a base id of which another attempt was matched when it was over."""
    taken = {base_id(text) for text in legs.texts_of(decode[stale])}
    retried = np.zeros(len(decode), bool)
    if taken:
        alone = np.flatnonzero((prefill == NONE) & (decode != NONE))
        retried[alone] = [base_id(text) in taken for text in legs.texts_of(decode[alone])]
    return retried


def _routers(legs: Legs, prefill: np.ndarray, decode: np.ndarray) -> tuple[np.ndarray, int]:
    """(n,) the router leg of each row by the id the router gave, and how many router legs found none."""
    found = np.full(len(prefill), NONE)
    by_text: defaultdict[str, list[int]] = defaultdict(list)
    begun, routers = _begun(legs), np.flatnonzero(legs.role == ROUTER)
    routers = routers[np.argsort(begun[routers], kind="stable")]
    for leg, text in zip(routers.tolist(), legs.texts_of(routers), strict=True):
        by_text[text].append(leg)
    if not by_text:
        return found, 0
    asked = np.where(decode == NONE, prefill, decode)
    for row, text in enumerate(legs.texts_of(asked)):
        attempts = by_text.get(text) or by_text.get(router_id(text))
        if attempts:
            under_way = [attempt for attempt in attempts if begun[attempt] <= begun[asked[row]]] if attempts[1:] else []
            found[row] = under_way[-1] if under_way else attempts[0]
    return found, sum(map(len, by_text.values())) - len(np.unique(found[found != NONE]))


def _begun(legs: Legs) -> np.ndarray:
    """(legs,) the first moment of each leg."""
    first = np.flatnonzero(np.diff(legs.leg, prepend=-1))
    return np.minimum.reduceat(legs.rows["t"], first) if len(first) else np.empty(0, np.int64)
