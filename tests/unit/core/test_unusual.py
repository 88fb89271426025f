"""What failed, what nobody asked for, whose id was made up: each is told for what it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kvscope.core.critical_path import split
from kvscope.model.requests import RequestSplit, State

from .scene import D_ID, MS, P_ID, P_LEG, events_of, moment, pull, push_early
from .unusual import Items, failed_and_aborted, leg, mistaken, pulled, refused

EXAMPLES = settings(max_examples=40, deadline=None)
HEX = st.text("0123456789abcdef", min_size=8, max_size=8)


def requests(items: Items) -> dict[str, RequestSplit]:
    return {request.request: request for request in split(events_of(items))}


@given(st.sampled_from(("prefill", "decode")), st.integers(4, 30), st.integers(4, 30))
@EXAMPLES
def test_a_failure_before_the_end_is_why_it_ended(side: str, failed: int, aborted: int) -> None:
    """Whoever gave up on it, and on whichever leg; one that came after the end changed nothing."""
    (request,) = split(events_of(failed_and_aborted("x", 0, side, failed, aborted)))
    assert request.shape == ("failed" if failed <= aborted else "aborted")
    assert (request.state, request.ttft_ns) == (State.COMPLETE, None)
    assert request.failure == f"{side} read_expired"


@pytest.mark.parametrize(("at", "shape"), [(108, "failed"), (300, "aborted")])
def test_a_decode_leg_that_is_given_up_after_prefill_failed_has_failed(at: int, shape: str) -> None:
    """Nobody tells decode that a write failed: it hangs until its client goes. A lease that ends later is no cause."""
    hung = [item for item in push_early() if item["t"] <= (108 if item["leg"] == "prefill" else 5) * MS]
    hung += [moment(P_LEG, "failed", at, reason="push_handshake_failed")]
    hung += [moment(leg("decode", D_ID), "finished", 200, reason="abort")]
    (request,) = split(events_of(hung))
    assert (request.peer_request, request.shape) == (P_ID, shape)
    assert request.failure == "prefill push_handshake_failed"


def test_a_failure_that_was_made_good_is_not_why_it_ended() -> None:
    """A later turn whose read failed, so that prefill computed it: then decode's client left."""
    parked = [item for item in pull() if item["t"] <= 118 * MS]
    parked += [moment(P_LEG, "failed", 4, reason="read_expired")]
    parked += [moment(leg("decode", D_ID), "finished", 119, reason="abort")]
    (request,) = split(events_of(parked))
    assert (request.shape, request.failure) == ("aborted", "prefill read_expired")


@given(HEX, st.booleans(), st.integers(1, 3))
@EXAMPLES
def test_an_id_that_a_router_made_up_takes_no_request_from_its_prefill(tail: str, alike: bool, times: int) -> None:
    """Prefill fails on it, once or more: those failures alone are no leg that decode could have meant."""
    given = f"cmpl-{'x' if alike else 'other'}-0-{tail}"
    assume(tail != "aaaaaaaa")
    again = [moment(leg("prefill", given), "failed", 126 + n, reason="unrecognized_notification") for n in range(times)]
    found = requests([*mistaken("x", 0, given), *again])
    request = found["cmpl-x-0-bbbbbbbb"]
    assert (request.peer_request, request.state, request.ttft_ns) == ("cmpl-x-0-aaaaaaaa", State.COMPLETE, 140 * MS)
    assert request.failure == ""
    assert found[given].failure == "prefill unrecognized_notification"


def test_a_failure_under_the_id_that_decode_was_given_is_its_own_where_nothing_else_is() -> None:
    """A recording that was cut down to it."""
    stranger = [item for item in mistaken("x", 0, "cmpl-other-0-00000000") if item["leg"] == "decode"]
    stranger.append(moment(leg("prefill", "cmpl-other-0-00000000"), "failed", 126, reason="lease_expired"))
    (request,) = split(events_of(stranger))
    assert (request.peer_request, request.failure) == ("cmpl-other-0-00000000", "prefill lease_expired")


@pytest.mark.parametrize("fails", [False, True])
def test_what_an_api_server_queued_to_free_blocks_is_counted_and_is_no_request(fails: bool) -> None:
    alone = split(events_of(refused("9f587b005d039c5d", 0, fails=fails)))
    assert (len(alone), alone.tally.cleanups, alone.tally.strays) == (0, 1, 0)
    assert alone.tally.events == 5 + fails
    beside = split(events_of([*pull(), *refused("9f587b005d039c5d", 300, fails=fails)]))
    assert ([request.request for request in beside], beside.tally.cleanups) == ([D_ID], 1)


def test_only_what_the_engine_calls_a_clean_up_is_one() -> None:
    """A prompt of one token that its client gives up at once looks the same but for that."""
    (request,) = split(events_of(refused("x", 0, cleanup=False, fails=False)))
    assert (request.shape, request.state) == ("aborted", State.COMPLETE)


def test_a_prefill_whose_decode_leg_was_refused_waits_for_nobody() -> None:
    """Its clean-up has no share in it, whatever it was called."""
    prefill = [item for item in pulled("x", 0) if item["leg"] == "prefill"]
    (request,) = split(events_of([*prefill, *refused("cmpl-x-0-cccccccc", 200)]))
    assert (request.shape, request.state) == ("prefill_only", State.UNMATCHED)
    assert request.decode_engine == ""


def test_what_a_prefill_decodes_itself_counts_in_its_run() -> None:
    """Asked for more than one token: its blocks are final, and its answer leaves, only after the last of them."""
    longer = [{**i, "t": i["t"] + 60 * MS} if i["t"] >= 105 * MS else i for i in pull()]
    longer.append(moment(P_LEG, "finished", 165, tokens=4, reason="length"))
    splits = split(events_of(longer))
    assert splits[0].exposed["prefill_run"] == 160 * MS
    assert np.array_equal(splits.ttft, splits.exposed.sum(axis=1))
