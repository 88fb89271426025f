"""Flows: on real recordings, and between pairs of ranks."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from kvscope.export.perfetto.flows import NO_REQUEST, flows
from kvscope.model.events import EVENT
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE

from .reading import Event
from .test_trace import RECORDINGS, requests, told

PUSH = ("registration_sent", "registration_received", "matched", "submit", "notified", "noticed")
PULL = ("submit", "done_seen", "noticed")


def chains(path: Path) -> list[list[Event]]:
    found: dict[int, list[Event]] = defaultdict(list)
    for each in told(path).events:
        for flow in each.flows:
            found[flow].append(each)
    return list(found.values())


@pytest.mark.parametrize(("path", "chain"), list(zip(RECORDINGS, (PUSH, PUSH, PULL), strict=True)))
def test_each_request_has_its_arrows(path: Path, chain: tuple[str, ...]) -> None:
    seen: dict[tuple[str, ...], list[list[Event]]] = defaultdict(list)
    for events in chains(path):
        seen[tuple(event.name for event in events)].append(events)
    expected = {chain, ("prefill_sent", "arrived"), ("decode_sent", "arrived")}
    assert set(seen) - {("handshake_begun", "handshake")} == expected
    everyone = {each.request: each.peer_request for each in requests(path).values()}
    for events in seen[chain]:
        ids = {event.args["request"] for event in events}
        decode = next(event.args["request"] for event in events if event.name == "noticed")
        assert ids <= {decode, everyone[decode]}
    assert {len(each) for name, each in seen.items() if name in expected} == {len(everyone)}
    for sent, engine in (("prefill_sent", "p0 input"), ("decode_sent", "d0 input")):
        assert all(events[1].track.endswith(engine) for events in seen[sent, "arrived"])


def row(moment: str, leg: str, t: int, rank: int, peer: int = 0) -> np.ndarray:
    found = np.zeros(1, EVENT)
    found["moment"], found["leg"], found["t"] = MOMENT_CODE[moment], LEG_CODE[leg], t
    found["rank"], found["peer_rank"] = rank, peer
    return found


def test_pairs_of_ranks_have_chains_of_their_own() -> None:
    """Two prefill ranks write into each of two decode ranks; a rank is notified by the last that wrote."""
    rows, wrote = [], {(1, 0): 30, (0, 0): 20, (1, 1): 31, (0, 1): 41}
    for (prefill, decode), t in wrote.items():
        rows += [row("registration_sent", "decode", 1, decode, prefill), row("matched", "prefill", 10, prefill, decode)]
        rows += [row("posted", "prefill", t, prefill, decode)]
    rows += [row("noticed", "decode", 50, rank) for rank in (0, 1)]
    every = np.concatenate(rows)
    found = flows(every, np.zeros(len(every), np.int64), np.zeros(len(every), bool))
    pairs = found[:-2].reshape(4, 3)
    assert (pairs == pairs[:, :1]).all()
    assert len(set(pairs[:, 0].tolist())) == 4
    assert found[-2] == pairs[0, 0], "(1, 0) wrote last into 0"
    assert found[-1] == pairs[3, 0], "(0, 1) wrote last into 1"


def test_moments_of_no_request_have_none() -> None:
    every = np.concatenate([row("matched", "prefill", 1, 0), row("matched", "prefill", 1, 3, 2)])
    assert flows(every, np.full(2, NO_REQUEST), np.zeros(2, bool)).tolist() == [0, 0]
