"""Which shape a request has, whether all its moments were seen, and whether decode was sent knowing prefill's end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.core.columns import Columns
from kvscope.core.legs import NONE
from kvscope.model.engines import DARK
from kvscope.model.graph import NODE, NODES
from kvscope.model.membership import among
from kvscope.model.requests import STATES, State
from kvscope.model.shapes import SHAPE_CODE, SHAPES
from kvscope.probe.layout import FLAG_RECOMPUTE, FLAG_REMOTE_PREFILL
from kvscope.probe.vocabulary import REASON_CODE, UNKNOWN

_BEFORE_DONE = ("registration_sent", "D.handed", "matched", "post_begun", "prepared", "posted")
_TRANSFER = (*_BEFORE_DONE, "done_seen", "notified", "noticed", "ready")
_WITHOUT_TRANSFER = tuple(SHAPE_CODE[name] for name in ("prefix_hit", "no_handoff", "decode_only"))
_NEEDS_PEER = tuple(SHAPE_CODE[name] for name in ("push", "pull", "return_read", "prefix_hit", "prefill_only"))
_ENDED = tuple(SHAPE_CODE[name] for name in ("aborted", "failed"))
# Prefill takes a completion into account only after a read of its own; posts it makes in a push, too.
_READ_BACK = ("P.reserved", "P.noticed", "P.ready")
_POSTED_BACK = ("P.post_begun", "P.prepared", "P.posted")


@dataclass(frozen=True)
class Classes:
    """What each of n requests is."""

    shape: np.ndarray
    """(n,) u1 index into SHAPES"""
    state: np.ndarray
    """(n,) u1 index into STATES"""
    missing: np.ndarray
    """(NODES, n) bool"""
    knew: np.ndarray
    """(n,) i1: 1 yes, 0 no, -1 no two legs"""
    push: np.ndarray
    """(n,) bool: the handoff is (or was to be) a write"""
    pull: np.ndarray
    """(n,) bool: a read"""
    recompute: np.ndarray
    """(n,) bool: the decode engine computed the prompt after a failed load"""


def classify(columns: Columns, cut: np.ndarray) -> Classes:
    """Shape, state, and what is missing, from the moments. cut: (legs,) bool as of `cut_legs`"""
    shape = _shapes(columns)
    over = _over(columns, shape)
    lost_sight = ~over & _cut(columns, cut)
    missing = _missing(columns, shape) | _never_told(columns, shape, over, lost_sight)
    recompute = shape == SHAPE_CODE["failed_recomputed"]
    return Classes(
        shape=shape,
        state=_states(columns, shape, missing, over, lost_sight),
        missing=missing,
        knew=_knew(columns, shape),
        push=columns.push & ~columns.pull & ~among(shape, *_WITHOUT_TRANSFER),
        pull=columns.pull,
        recompute=recompute,
    )


def _shapes(columns: Columns) -> np.ndarray:
    prefill, decode = columns.joined.prefill != NONE, columns.joined.decode != NONE
    answered, ended = columns.has("first_token"), columns.has("D.finished")
    failed = columns.has("failed")
    flags = columns.field("D.queued", "flags")
    asked = (flags & FLAG_REMOTE_PREFILL != 0) | (columns.field("D.queued", "peer") != 0)
    asked |= columns.value("D.queued", "peer_engine") != UNKNOWN
    aborted = ~answered & np.where(
        decode, _finished(columns, "D.finished", "abort"), _finished(columns, "P.finished", "abort")
    )
    moved = columns.has(*_TRANSFER)
    failed_first = aborted & _failed_first(columns)
    told = columns.field("ready", "flags") & FLAG_RECOMPUTE != 0
    recomputed = answered & failed & columns.has("ready") & (told | ~columns.has("noticed"))
    over = ended & (failed | _finished(columns, "D.finished", "error"))
    table = (
        ("aborted", aborted & ~failed_first),
        ("failed", ~answered & (failed_first | np.where(decode, over, _finished(columns, "P.finished", "error")))),
        ("failed_recomputed", recomputed),
        ("prefill_only", ~decode & ~columns.has("matched")),
        ("return_read", decode & (columns.has(*_READ_BACK) | (columns.pull & columns.has(*_POSTED_BACK)))),
        ("pull", columns.pull),
        ("push", columns.push & moved),
        ("undecided", decode & ~answered & asked & ~moved),
        ("pull", moved),
        ("prefix_hit", decode & asked),
        ("no_handoff", decode & prefill),
        ("decode_only", decode),
    )
    codes = [np.uint8(SHAPE_CODE[name]) for name, _ in table]
    return np.select([rows for _, rows in table], codes, np.uint8(SHAPE_CODE["undecided"])).astype(np.uint8)


def _failed_first(columns: Columns) -> np.ndarray:
    """(n,) A failure that nothing made good came before the end: who gave up then is not why it has no first token."""
    decode, failed = columns.joined.decode != NONE, columns.t("P.failed")
    prefill = np.where(columns.t("P.computed") > failed, UNKNOWN, failed)  # computed after all
    own = np.where(decode, columns.t("failed"), prefill)
    other = np.where(decode & ~columns.joined.unaligned, prefill, UNKNOWN)
    end = np.where(decode, columns.t("D.finished"), columns.t("P.finished"))
    return np.asarray(((own != UNKNOWN) & (own <= end)) | ((other != UNKNOWN) & (other <= end)))


def _finished(columns: Columns, node: str, reason: str) -> np.ndarray:
    return np.asarray(columns.field(node, "reason") == REASON_CODE[reason])


def _missing(columns: Columns, shape: np.ndarray) -> np.ndarray:
    required = np.zeros((len(NODES), len(SHAPES)), bool)
    for code, kind in enumerate(SHAPES):
        required[list(kind.nodes), code] = True
    return np.asarray(required[:, shape] & (columns.time[: len(NODES)] == UNKNOWN))


def _over(columns: Columns, shape: np.ndarray) -> np.ndarray:
    """(n,) bool: its first token or its end was seen."""
    decode = columns.has("first_token", "D.finished", "D.released")
    return np.where(columns.joined.decode != NONE, decode, columns.has("P.released") | among(shape, *_ENDED))


def _cut(columns: Columns, cut: np.ndarray) -> np.ndarray:
    """(n,) bool: of the leg that would tell how it goes on, nothing was recorded beyond a gap."""
    joined = columns.joined
    return np.asarray(np.append(cut, False)[np.where(joined.decode != NONE, joined.decode, joined.prefill)])


def _never_told(columns: Columns, shape: np.ndarray, over: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """(NODES, n) bool: what those lack that were cut, or ended before anything told their shape."""
    lacking = np.zeros((len(NODES), len(columns)), bool)
    decode = columns.joined.decode != NONE
    lacking[list(SHAPES[SHAPE_CODE["decode_only"]].nodes)] = decode & (cut | over & (shape == SHAPE_CODE["undecided"]))
    lacking[NODE["first_token"]] |= cut
    return np.asarray(lacking & (columns.time[: len(NODES)] == UNKNOWN))


def _states(columns: Columns, shape: np.ndarray, missing: np.ndarray, over: np.ndarray, cut: np.ndarray) -> np.ndarray:
    prefill, decode = columns.joined.prefill != NONE, columns.joined.decode != NONE
    ended = among(shape, *_ENDED)
    needs_peer = among(shape, *_NEEDS_PEER)
    dark = (prefill != decode) & (columns.joined.peer == DARK) & needs_peer
    answers, unaligned = np.array([kind.answers for kind in SHAPES])[shape], columns.joined.unaligned
    table = (
        (State.INCOMPLETE, cut),
        (State.UNFINISHED, ~over),
        (State.ONE_LEGGED, dark),
        (State.UNMATCHED, ~decode & ~ended),
        (State.INCOMPLETE, missing.any(axis=0) | (answers & (columns.t("origin") == UNKNOWN) & ~unaligned)),
        (State.UNALIGNED, answers & unaligned),
    )
    codes = [np.uint8(STATES.index(state)) for state, _ in table]
    complete = np.uint8(STATES.index(State.COMPLETE))
    return np.select([rows for _, rows in table], codes, complete).astype(np.uint8)


def _knew(columns: Columns, shape: np.ndarray) -> np.ndarray:
    """Decode knew prefill's end: pull always; push by the id it was given, or by the router's own account."""
    both = (columns.joined.prefill != NONE) & (columns.joined.decode != NONE)
    request = np.append(columns.legs.request, np.uint64(0))[columns.joined.prefill]
    given = columns.field("D.queued", "peer")
    returned, sent = columns.t("prefill_returned"), columns.t("decode_sent")
    knew = (given != 0) & (given == request)
    knew |= (returned != UNKNOWN) & (sent != UNKNOWN) & (returned <= sent)
    knew |= columns.pull
    # Without a transfer there is no id to tell; a decode leg that came after prefill's end was sent after it.
    silent = (shape == SHAPE_CODE["no_handoff"]) & (sent == UNKNOWN) & ~columns.joined.unaligned
    knew |= silent & (columns.t("D.arrived") >= columns.t("P.computed"))
    knew &= columns.has("P.computed")
    return np.where(both, knew, -1).astype(np.int8)
