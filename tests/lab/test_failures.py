"""What goes wrong on real engines is told, with its reason or with the last moment reached."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import pytest

from kvscope.lab import dispatch
from kvscope.lab.model import ModelSpec
from kvscope.lab.pair import PairOptions
from kvscope.model.requests import State
from kvscope.probe.reader import list_rings
from kvscope.probe.recorder import key64
from kvscope.probe.vocabulary import MOMENT_CODE, REASONS, VALUES
from kvscope.sources.rings import read_rings
from tests.lab.rig import (
    Body,
    Leg,
    Rig,
    asked,
    decoding,
    handed_over,
    kill,
    prefilled,
    prompt,
    stamped,
    told,
    with_policy,
)

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

SMALL = ModelSpec(positions=1024)
BLOCK, BLOCKS = 32, 40


@pytest.fixture(scope="class")
def push(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Short leases, a short watchdog, prefix caching, and a cache that holds one long request and a bit."""
    options = PairOptions(
        connector="push",
        model=SMALL,
        blocks=BLOCKS,
        block_size=BLOCK,
        lease_s=12,
        extra_config={"push_registration_timeout": 10},
        vllm_args=("--enable-prefix-caching",),
    )
    rig = Rig(options, tmp_path_factory.mktemp("push"))
    with rig:
        yield rig


@pytest.fixture(scope="class")
def known(push: Rig) -> Body:
    """Prefill's coordinates, as an early router knows them."""
    returned = prefilled(push["p0"], "first", prompt(100, 1))
    status, _ = decoding(push["d0"], "first", prompt(100, 1), dispatch.sequential_params("push", returned)).answer()
    assert status == 200
    return dispatch.early_params(dispatch.coordinates(returned))


class TestPush:
    def test_the_same_prompt_again_moves_less(self, push: Rig) -> None:
        same = prompt(321, 2)
        for name in ("fresh", "again"):
            handed_over(push, name, same)
        fresh, again = push.of("fresh"), push.of("again")
        assert [(each.shape, each.state) for each in (fresh, again)] == [("push", State.COMPLETE)] * 2
        assert again.cached_tokens == 320
        assert (again.transfer_bytes or 0) * 5 < (fresh.transfer_bytes or 0)
        assert (fresh.reserved_blocks, again.reserved_blocks) == (11, 1)

    def test_a_request_without_room_is_held_for_blocks(self, push: Rig) -> None:
        long, longer = prompt(600, 3), prompt(900, 4)
        params = dispatch.sequential_params("push", prefilled(push["p0"], "first-in", long))
        running = decoding(push["d0"], "first-in", long, params, tokens=300)
        push.until("first-in", lambda split: split.first_token is not None)
        handed_over(push, "held", longer)
        assert running.answer()[0] == 200
        split = push.of("held")
        assert (split.shape, split.state) == ("push", State.COMPLETE), told(split)
        assert "decode held" in stamped(split)
        assert max(split.exposed, key=lambda stage: split.exposed[stage]) == "decode_admission", told(split)
        events = read_rings(push.run_dir)
        held = events.rows[events.rows["moment"] == MOMENT_CODE["held"]]
        assert "blocks" in {REASONS[reason] for reason in held["reason"]}

    def test_a_prefill_whose_decode_never_comes_keeps_its_blocks_for_the_lease(self, push: Rig) -> None:
        prefilled(push["p0"], "orphan", prompt(200, 5))
        waiting = push.of("orphan")
        assert (waiting.shape, waiting.failure) == ("prefill_only", "")
        split = push.until("orphan", lambda split: bool(split.failure))
        assert split.failure == "prefill lease_expired"
        split = push.until("orphan", lambda split: split.pinned_ns is not None)
        assert 12e9 <= (split.pinned_ns or 0) < 20e9
        assert split.shape == "prefill_only"

    def test_a_client_that_leaves_a_parked_request(self, push: Rig, known: Body) -> None:
        leg = decoding(push["d0"], "left", prompt(100, 6), known)
        parked = push.until("left", lambda split: split.last_moment == "decode registration_sent")
        assert (parked.state, parked.failure) == (State.UNFINISHED, "")
        leg.abandon()
        split = push.until("left", lambda split: split.state is not State.UNFINISHED)
        assert (split.shape, split.state, split.finish_reason, split.failure) == (
            "aborted",
            State.COMPLETE,
            "abort",
            "",
        ), told(split)
        assert "decode released" not in stamped(split), "vLLM keeps the blocks of a load that nobody ends"

    def test_a_registration_that_is_never_matched(self, push: Rig, known: Body) -> None:
        leg = decoding(push["d0"], "unmatched", prompt(100, 7), known)
        split = push.until("unmatched", lambda split: bool(split.failure))
        assert (split.state, split.failure) == (State.UNFINISHED, "decode registration_expired"), told(split)
        assert (split.age_ns or 0) >= 10e9
        leg.abandon()
        split = push.until("unmatched", lambda split: split.state is not State.UNFINISHED)
        assert split.failure == "decode registration_expired"
        assert split.ttft_ns is None

    def test_nothing_went_wrong_in_the_probe(self, push: Rig) -> None:
        nothing_went_wrong_in_the_probe(push)


@pytest.fixture(scope="class")
def pull(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Two engines on each side, turns in both directions; p0 and d1 compute what they cannot load, p1 and d0 fail."""
    options = PairOptions(
        connector="pull",
        prefills=2,
        decodes=2,
        model=SMALL,
        block_size=BLOCK,
        blocks=200,
        lease_s=12,
        extra_config={"bidirectional_kv_xfer": True, "decoder_kv_blocks_ttl": 60},
    )
    changes = {name: with_policy("recompute") for name in ("p0", "d1")}
    rig = Rig(options, tmp_path_factory.mktemp("pull"), changes)
    with rig:
        yield rig


def later_turn(first: list[int], answer: Body, **params: object) -> tuple[list[int], Body]:
    """Prompt and prefill leg of a turn that goes on where `answer` ended, from what decode said of its blocks."""
    again = [*first, *answer["choices"][0]["token_ids"], *prompt(100, 40)]
    body = dispatch.prefill_body(asked(again))
    body["kv_transfer_params"] |= {**answer["kv_transfer_params"], **params}
    return again, body


class TestPull:
    """In this order: the later ones kill the prefill engines."""

    def test_a_later_turn_is_read_back(self, pull: Rig) -> None:
        first = prompt(300, 20)
        answer = handed_over(pull, "turn-one", first, decode="d1")
        again, body = later_turn(first, answer)
        status, returned = Leg(pull["p0"], "turn-two", body).answer()
        assert status == 200
        status, _ = decoding(pull["d1"], "turn-two", again, returned["kv_transfer_params"]).answer()
        assert status == 200
        split = pull.of("turn-two")
        assert (split.shape, split.state, split.failure) == ("return_read", State.COMPLETE, ""), told(split)
        assert sum(span.ns for span in split.path) == split.ttft_ns
        for moment in ("reserved", "post_begun", "prepared", "posted", "done_seen", "noticed", "ready"):
            assert {f"prefill {moment}", f"decode {moment}"} <= set(stamped(split)), moment

    def test_a_later_turn_that_comes_too_late_is_failed(self, pull: Rig) -> None:
        status, _ = self.too_late(pull, "p1").answer()
        assert status == 500
        split = pull.of("late-p1")
        assert (split.failure, split.first_token) == ("prefill read_expired", None), told(split)
        assert {"prefill reserved", "prefill failed", "prefill finished", "prefill released"} <= set(stamped(split))

    def test_a_later_turn_that_comes_too_late_and_is_to_be_computed(self, pull: Rig) -> None:
        """vLLM 0.32.0 parks it again, for a read that nobody begins: it hangs, and that must show."""
        leg = self.too_late(pull, "p0")
        split = pull.until(
            "late-p0", lambda split: stamped(split).count("prefill reserved") > 0 and bool(split.failure)
        )
        assert (split.state, split.failure) == (State.UNFINISHED, "prefill read_expired"), told(split)
        leg.abandon()
        split = pull.until("late-p0", lambda split: split.state is not State.UNFINISHED)
        assert (split.shape, split.finish_reason, split.failure) == ("failed", "", "prefill read_expired"), told(split)

    @staticmethod
    def too_late(rig: Rig, name: str) -> Leg:
        """The prefill leg of a later turn, when decode no longer has the blocks of the one before (sent by p0)."""
        first = prompt(300, 21)
        answer = handed_over(rig, f"early-{name}", first, "p0", "d1")
        _, body = later_turn(first, answer, remote_blocks_expiry_time=perf_counter())
        return Leg(rig[name], f"late-{name}", body)

    def test_a_router_that_mistakes_the_prefill_s_request(self, pull: Rig) -> None:
        text = prompt(300, 22)
        params = prefilled(pull["p0"], "mistaken", text)
        status, _ = decoding(
            pull["d0"], "mistaken", text, {**params, "remote_request_id": "cmpl-other-0-00000000"}
        ).answer()
        assert status == 200
        stranger = pull.until("cmpl-other-0", lambda split: bool(split.failure))
        assert stranger.failure == "prefill unrecognized_notification", told(stranger)
        request = pull.of("mistaken")
        assert (request.shape, request.state, request.failure) == ("pull", State.COMPLETE, ""), told(request)
        assert request.peer_request == params["remote_request_id"]

    def test_a_refused_decode_leg_is_no_request_of_which_blocks_are_freed(self, pull: Rig) -> None:
        """vLLM's API server queues something for that, which no client asked for."""
        before = pull.splits().tally.cleanups
        params = prefilled(pull["p0"], "refused", prompt(300, 23))
        status, _ = decoding(pull["d0"], "refused", prompt(2000, 24), params).answer()
        assert status == 400
        split = pull.until("refused", lambda split: split.state is State.UNMATCHED)
        assert (split.shape, split.decode_engine, split.failure) == ("prefill_only", "", ""), told(split)
        splits = pull.splits()
        assert splits.tally.cleanups == before + 1
        assert not splits.shaped("aborted").any()

    def test_a_prefill_asked_for_several_tokens_decodes_them_before_its_blocks_are_final(self, pull: Rig) -> None:
        body = dispatch.prefill_body(asked(prompt(300, 25))) | {"max_tokens": 5, "min_tokens": 5}
        status, returned = Leg(pull["p0"], "several", body).answer()
        assert status == 200
        status, _ = decoding(pull["d0"], "several", prompt(300, 25), returned["kv_transfer_params"]).answer()
        assert status == 200
        split = pull.of("several")
        events = read_rings(pull.run_dir)
        mine = events.rows[events.rows["request"] == key64(split.peer_request)]
        (finished,) = mine[mine["moment"] == MOMENT_CODE["finished"]]
        (computed,) = mine[mine["moment"] == MOMENT_CODE["computed"]]
        (scheduled,) = mine[mine["moment"] == MOMENT_CODE["scheduled"]]
        assert finished["values"][VALUES["finished"].index("tokens")] == 5
        assert computed["step"] == scheduled["step"] + 4
        assert sum(span.ns for span in split.path) == split.ttft_ns

    def test_a_known_prefill_that_died_before_the_read(self, pull: Rig) -> None:
        died("p0", pull, "transfer")

    def test_an_unknown_prefill_that_died_before_the_handshake(self, pull: Rig) -> None:
        died("p1", pull, "handshake")

    def test_nothing_went_wrong_in_the_probe(self, pull: Rig) -> None:
        nothing_went_wrong_in_the_probe(pull)


def died(name: str, rig: Rig, how: str) -> None:
    """Kill a prefill engine between its answers and the decode legs, one for each policy."""
    texts = {"d0": prompt(300, 30), "d1": prompt(300, 31)}
    if how == "transfer":
        for decode in texts:
            handed_over(rig, f"meets-{decode}", prompt(100, 32), name, decode)
    params = {decode: prefilled(rig[name], f"{how}-{decode}", text) for decode, text in texts.items()}
    kill(rig[name])
    legs = {decode: decoding(rig[decode], f"{how}-{decode}", text, params[decode]) for decode, text in texts.items()}
    cleanups = rig.splits().tally.cleanups
    status, _ = legs["d0"].answer()
    assert status == 500
    failed = rig.of(f"{how}-d0")
    assert (failed.shape, failed.state) == ("failed", State.COMPLETE), told(failed)
    assert failed.failure.startswith(f"decode {how}"), told(failed)
    rig.until(f"{how}-d0", lambda _: rig.splits().tally.cleanups == cleanups + 1)
    assert not rig.splits().shaped("aborted").any(), "what frees its blocks is no request"
    status, _ = legs["d1"].answer()
    assert status == 200
    recomputed = rig.of(f"{how}-d1")
    assert (recomputed.shape, recomputed.state) == ("failed_recomputed", State.COMPLETE), told(recomputed)
    assert recomputed.failure.startswith(f"decode {how}"), told(recomputed)
    assert recomputed.exposed["failed_attempt"] > 0
    assert sum(span.ns for span in recomputed.path) == recomputed.ttft_ns


def nothing_went_wrong_in_the_probe(rig: Rig) -> None:
    assert {ring.engine: ring.header.errors for ring in list_rings(rig.run_dir) if ring.header.errors} == {}
    tally = rig.splits().tally
    assert (tally.out_of_bounds, tally.lost) == (0, 0)
