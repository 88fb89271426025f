"""What the router writes into the legs."""

from __future__ import annotations

import math

import pytest

from kvscope.lab import dispatch
from kvscope.lab.dispatch import Conduct
from kvscope.model.errors import InputError

RETURNED = {
    "do_remote_prefill": True,
    "do_remote_decode": False,
    "remote_engine_id": "E",
    "remote_request_id": "cmpl-X-0-12345678",
    "remote_block_ids": [[1, 2]],
    "remote_host": "127.0.0.1",
    "remote_port": 5600,
    "tp_size": 1,
    "pp_size": 1,
    "remote_num_tokens": 20,
}
BODY = {"prompt": "p", "max_tokens": 9, "stream": True, "stream_options": {"include_usage": True}, "temperature": 0}


def test_the_prefill_leg_asks_for_one_token_unstreamed_and_to_hand_over() -> None:
    leg = dispatch.prefill_body(BODY)
    assert (leg["max_tokens"], leg["stream"], leg["prompt"], leg["temperature"]) == (1, False, "p", 0)
    assert "stream_options" not in leg
    assert leg["kv_transfer_params"]["do_remote_decode"] is True
    assert BODY["max_tokens"] == 9, "the client's body is left alone"


def test_a_later_turn_tells_prefill_of_the_blocks_that_decode_still_holds() -> None:
    told = {**RETURNED, "do_remote_prefill": False, "do_remote_decode": True}
    leg = dispatch.prefill_body({**BODY, "kv_transfer_params": told})
    assert leg["kv_transfer_params"] == told


@pytest.mark.parametrize("told", [None, {}, [], "x", {"do_remote_decode": False, "remote_block_ids": [[1]]}])
def test_what_tells_of_no_blocks_at_decode_does_not_reach_prefill(told: object) -> None:
    leg = dispatch.prefill_body({**BODY, "kv_transfer_params": told})
    assert leg == dispatch.prefill_body(BODY)


def test_pull_s_decode_leg_carries_all_that_prefill_returned() -> None:
    assert dispatch.sequential_params("pull", dict(RETURNED)) == RETURNED


def test_push_s_sequential_leg_names_engine_and_request_but_no_blocks() -> None:
    params = dispatch.sequential_params("push", dict(RETURNED))
    assert params["remote_request_id"] == RETURNED["remote_request_id"]
    assert (params["remote_engine_id"], params["remote_port"], params["tp_size"]) == ("E", 5600, 1)
    assert params["do_remote_prefill"] is True
    assert "remote_block_ids" not in params


def test_an_early_leg_names_the_engine_and_no_request() -> None:
    params = dispatch.early_params(dispatch.coordinates(dict(RETURNED)))
    assert params["remote_request_id"] == dispatch.PLACEHOLDER
    assert params["remote_engine_id"] == "E"


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"kv_transfer_params": null}', b"<html>"])
def test_an_answer_without_hand_over_parameters_says_so(answer: bytes) -> None:
    with pytest.raises(InputError, match="kv_transfer_params"):
        dispatch.returned_params(answer)


def test_conduct_changes_only_what_is_wished() -> None:
    assert Conduct("early", 5).changed("push", {"hold_ms": 50}) == Conduct("early", 50)


@pytest.mark.parametrize(
    ("connector", "wishes"),
    [
        ("pull", {"dispatch": "early"}),
        ("push", {"dispatch": "late"}),
        ("push", {"hold_ms": -1}),
        ("push", {"hold_ms": math.nan}),
        ("push", {"hold_ms": math.inf}),
        ("push", {"hold_ms": "long"}),
        ("push", {"drop": "both"}),
        ("push", {"speed": 1}),
        ("push", {"strip": "yes"}),
        ("push", {"misname": 7}),
        ("push", {"rename": 7}),
    ],
)
def test_conduct_that_cannot_be_is_refused(connector: str, wishes: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Conduct().changed(connector, wishes)


def test_a_router_that_strips_tells_decode_nothing_of_the_blocks() -> None:
    leg = dispatch.decode_body(BODY, dict(RETURNED))
    assert dispatch.faulty_body(Conduct(strip=True), leg) == BODY
    assert dispatch.faulty_body(Conduct(), leg) == leg


def test_a_router_that_misnames_changes_the_request_alone() -> None:
    leg = dispatch.decode_body(BODY, dict(RETURNED))
    other = dispatch.faulty_body(Conduct(misname="cmpl-other"), leg)["kv_transfer_params"]
    assert other == {**RETURNED, "remote_request_id": "cmpl-other"}
