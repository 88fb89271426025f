"""What requests, handshakes and agents tell of the clocks of two hosts: messages, none received before it was sent.

Only what could not be otherwise counts: moments of requests joined by both ids, handed over between one rank and one
rank, once. A message may be received late (a parked writer drains when its engine steps), which costs width alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kvscope.core.carve import handshakes
from kvscope.core.clocks import UNTOLD, hosts_of
from kvscope.core.columns import Columns
from kvscope.core.legs import NONE, ROUTER, Legs
from kvscope.core.offsets import DRIFT, MESSAGE, turned
from kvscope.model.events import Process
from kvscope.model.exchange import Exchange
from kvscope.probe.vocabulary import MOMENT_CODE, REASON_CODE, UNKNOWN

Pair = tuple[str, str]
Messages = dict[Pair, np.ndarray]
"""(host, host), the lesser name first -> (n,) MESSAGE; `here` is the first"""
_STAMPING_NS = 2_000
"""vLLM tells a handshake's times in seconds, as floats: they are good to so much."""
_NODES = (
    *("registration_sent", "registration_received", "prepared", "pending_seen", "notified", "noticed", "P.computed"),
    *("P.taken", "D.taken", "P.released", "P.failed", "prefill_sent", "prefill_returned", "decode_sent"),
)
_ROUTED = tuple(MOMENT_CODE[name] for name in ("prefill_sent", "prefill_returned", "decode_sent"))


def messages_of(columns: Columns, processes: Sequence[Process]) -> Messages:
    """Of requests between hosts and of handshakes. columns: times as stamped"""
    names = sorted({process.host for process in processes} - {""})
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = [_of_handshakes(columns.legs, processes)]
    rows = np.flatnonzero(columns.joined.unaligned & columns.joined.told)
    if len(rows):
        found += _of_requests(columns, rows)
    return merged(_by_pair(names, *parts) for parts in found)


def messages_of_exchanges(exchanges: Iterable[Exchange]) -> Messages:
    """A question and its answer are a message each way; those that cannot be are left out."""
    told: dict[Pair, list[tuple[int, int, bool]]] = {}
    for each in exchanges:
        if each.possible and each.host != each.peer:
            its = told.setdefault((each.host, each.peer), [])
            its += [(each.sent, each.received, False), (each.back, each.replied, True)]
    return merged({_in_order(pair): _as_of(pair, np.array(its, MESSAGE))} for pair, its in told.items())


def merged(parts: Iterable[Messages]) -> Messages:
    """All of them, by pair."""
    found: dict[Pair, list[np.ndarray]] = {}
    for part in parts:
        for pair, its in part.items():
            found.setdefault(pair, []).append(its)
    return {pair: np.concatenate(found[pair]) for pair in sorted(found)}


def _in_order(pair: Pair) -> Pair:
    return (pair[0], pair[1]) if pair[0] < pair[1] else (pair[1], pair[0])


def _as_of(pair: Pair, messages: np.ndarray) -> np.ndarray:
    return messages if pair[0] < pair[1] else turned(messages)


def _by_pair(names: list[str], here: np.ndarray, there: np.ndarray, sent: np.ndarray, received: np.ndarray) -> Messages:
    """here, there: (n,) numbers of the hosts that sent and received; names in their order, which is the names'."""
    found = np.empty(len(sent), MESSAGE)
    back = here > there
    found["here"], found["there"] = np.where(back, received, sent), np.where(back, sent, received)
    found["back"] = back
    low, high = np.minimum(here, there), np.maximum(here, there)
    key = low * len(names) + high
    told = (low != high) & (low >= 0)
    return {(names[at // len(names)], names[at % len(names)]): found[told & (key == at)] for at in np.unique(key[told])}


def _of_requests(columns: Columns, rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """(sender's host, receiver's host, sent, received) of each kind of message."""
    joined, legs = columns.joined, columns.legs
    first, last = np.append(legs.hosts, [[UNTOLD, UNTOLD]], axis=0).T
    one = np.where(first == last, first, UNTOLD)
    prefill, decode, router = (one[seat[rows]] for seat in (joined.prefill, joined.decode, joined.router))
    t = {name: columns.t(name)[rows] for name in _NODES}
    whole = _whole(columns, rows)
    pull, push = columns.pull[rows] & whole, columns.push[rows] & ~columns.pull[rows] & whole
    posted = np.maximum(t["prepared"], t["pending_seen"])  # it was in flight then, so that its end came later
    noticed = np.where(t["notified"] == UNKNOWN, t["noticed"], t["notified"])
    let_go = (t["P.failed"] == UNKNOWN) & (columns.field("P.finished", "reason")[rows] != REASON_CODE["abort"])
    once = _routed_once(columns, rows)
    kinds = (
        (decode, prefill, t["registration_sent"], t["registration_received"], push),
        (prefill, decode, posted, noticed, push),
        (prefill, decode, t["P.computed"], t["D.taken"], pull),
        (decode, prefill, posted, t["P.released"], pull & let_go),
        (router, prefill, t["prefill_sent"], t["P.taken"], once),
        (prefill, router, t["P.computed"], t["prefill_returned"], once),
        (router, decode, t["decode_sent"], t["D.taken"], once),
    )
    found = []
    for here, there, sent, received, fits in kinds:
        at = np.flatnonzero(fits & (sent != UNKNOWN) & (received != UNKNOWN) & (here != UNTOLD) & (there != UNTOLD))
        found.append((here[at], there[at], sent[at], received[at]))
    return found


def _whole(columns: Columns, rows: np.ndarray) -> np.ndarray:
    """(k,) bool: one transfer between one rank and one rank, of legs that no other request has, tried once."""
    joined, legs = columns.joined, columns.legs
    odd = np.zeros(len(legs.hash) + 1, bool)
    odd[legs.leg[(legs.rows["rank"] != 0) | (legs.rows["peer_rank"] != 0)]] = True
    again = {*legs.again, *(hashed for later in legs.again.values() for _, hashed in later)}
    odd[:-1] |= np.isin(legs.hash, np.array(list(again), np.uint64))
    seats = [joined.prefill, joined.decode, joined.registration]
    shared = np.bincount(joined.prefill + 1, minlength=len(legs.hash) + 1)[joined.prefill + 1] > 1
    return np.asarray(~(np.logical_or.reduce([odd[seat] for seat in seats]) | shared | joined.retried)[rows])


def _routed_once(columns: Columns, rows: np.ndarray) -> np.ndarray:
    """(k,) bool: the router asked each engine once, so that an answer is the answer of the leg that is known."""
    legs, router = columns.legs, columns.joined.router
    asked = np.ones(len(legs.hash) + 1, bool)
    for moment in _ROUTED:
        asked[:-1] &= np.bincount(legs.leg[legs.of(moment, ROUTER)], minlength=len(legs.hash)) <= 1
    return np.asarray((asked[router] & (router != NONE))[rows])


def _of_handshakes(legs: Legs, processes: Sequence[Process]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """vLLM measures a round trip and an offset: somewhere between begin and end that was a message each way."""
    met, host = handshakes(legs), hosts_of(processes)
    engine = np.full(len(legs.engines.engines) + 1, UNTOLD)
    for number in range(len(engine) - 1):
        its = np.unique(host[legs.engines.of_process == number])
        engine[number] = its[0] if len(its) == 1 else UNTOLD
    here, there = engine[met.engine], engine[np.maximum(met.peer, -1)]
    at = np.flatnonzero(
        (met.rtt >= 0) & (met.offset != UNKNOWN) & (here != UNTOLD) & (there != UNTOLD) & (met.peer >= 0)
    )
    slack = met.rtt[at] // 2 + _STAMPING_NS + np.ceil((met.end - met.begin)[at] * DRIFT).astype(np.int64)
    end, measured = met.end[at], met.end[at] + met.offset[at]
    here, there = here[at], there[at]
    return (
        np.concatenate((here, there)),
        np.concatenate((there, here)),
        np.concatenate((end, measured - slack)),
        np.concatenate((measured + slack, end)),
    )
