"""Every incident that the lab makes, and those of the known ones that it does not, each with the reason."""

from __future__ import annotations

from collections.abc import Sequence

from kvscope.lab.case import AT_THE_END, FIRST, LAST, Blow, Case, Phase
from kvscope.lab.load import LoadOptions, prompt
from kvscope.lab.model import ModelSpec
from kvscope.lab.pair import PairOptions
from kvscope.model.errors import InputError

LEASE_S, DEADLINE_S = 12, 10
PUSH = PairOptions("push", lease_s=LEASE_S, extra_config={"push_registration_timeout": DEADLINE_S})
TIGHT = PairOptions("push", model=ModelSpec(positions=2560), lease_s=LEASE_S, decode_blocks=22)
"""Decode holds two prompts of 1,000 tokens (a block has 128), prefill as many as it likes."""
CHUNKED = PairOptions("push", vllm_args=("--max-num-batched-tokens", "64", "--enable-prefix-caching"))
PULL = PairOptions("pull", lease_s=LEASE_S)
WIDE = ModelSpec(kv_heads=4, head_size=128)
"""16 KiB of KV a token, so that its way is a good part of the time to first token."""
SHARED = PairOptions("push", model=WIDE)
TCP = PairOptions("push", model=WIDE, ucx_tls="tcp,self")


def load(requests: int, rate: float, tokens: int = 500, out: int = 8, **more: object) -> LoadOptions:
    """At a fixed rate, without a warm-up."""
    told = {"arrivals": "fixed", "warm_up": 0, "input_tokens": ((tokens, 1.0),), "timeout_s": 60.0, **more}
    return LoadOptions(requests=requests, rate=rate, output_tokens=out, **told)  # type: ignore[arg-type]


def usual(*loads: LoadOptions) -> Phase:
    """Nothing is wrong."""
    return Phase(loads, faulty=False)


def alternating(requests: int, rate: float, *lengths: int, bunch: int = 1) -> LoadOptions:
    """Prompts of these lengths in turn."""
    texts = tuple(prompt(lengths[number % len(lengths)], f"{bunch} {number}") for number in range(requests))
    return load(requests, rate, prompts=texts, bunch=bunch)


def twice(requests: int, rate: float, tokens: int) -> LoadOptions:
    """Each prompt comes again right after itself."""
    texts = tuple(prompt(tokens, f"twice {number // 2}") for number in range(requests))
    return load(requests, rate, prompts=texts)


RETRIED = tuple(f"retried-{number}" for number in range(4))

CASES: tuple[Case, ...] = (
    Case(
        "slow-first-contact",
        "the first request between two engines that have never met, then others",
        PUSH,
        (Phase((load(1, 1),)), usual(load(16, 2))),
        "registration_flight",
        "handshake",
        turn=FIRST,
    ),
    Case(
        "late-registration",
        "the router waits 200 ms between the legs",
        PUSH,
        (usual(load(16, 1.2)), Phase((load(16, 1.2, seed=1),), {"hold_ms": 200})),
        "dispatch",
        "router",
    ),
    Case(
        "no-handoff",
        "the router leaves out what tells decode where the blocks are",
        PUSH,
        (usual(load(16, 2)), Phase((load(16, 2, seed=1),), {"strip": True})),
        "decode_run",
        "router",
        settle_s=LEASE_S + 4,
    ),
    Case(
        "prefill-saturated",
        "twelve prompts of 1,000 tokens come at 8/s",
        PUSH,
        (usual(load(12, 1, 1000)), Phase((load(12, 8, 1000, seed=1),))),
        "prefill_queue",
        "prefill",
        dispatch="early",
    ),
    Case(
        "prefill-queue-behind-early-dispatch",
        "eight prompts of 4,000 tokens at once, both legs together; decode's deadline is 10 s",
        PUSH,
        (usual(load(10, 2)), Phase((load(8, 20, 4000, seed=1),))),
        "prefill_queue",
        "prefill",
        dispatch="early",
    ),
    Case(
        "writer-handed-blocks-a-step-late",
        "a prompt of 1,200 tokens comes right behind each of 300, so that prefill steps on",
        PUSH,
        (
            usual(alternating(16, 0.5, 300, 1200)),
            Phase((alternating(20, 0.5, 300, 1200, bunch=2),)),
        ),
        "staging",
        "prefill",
        dispatch="early",
    ),
    Case(
        "id-mismatch",
        "the router adds something to the id of each decode leg",
        PUSH,
        (usual(load(10, 2)), Phase((load(4, 2, seed=1, timeout_s=14.0),), {"rename": "-other"})),
        "registration_flight",
        "router",
        dispatch="early",
    ),
    Case(
        "registration-never-matched",
        "the router never sends the prefill leg",
        PUSH,
        (usual(load(10, 2)), Phase((load(4, 2, seed=1, timeout_s=14.0),), {"drop": "prefill"})),
        "registration_flight",
        "router",
        dispatch="early",
    ),
    Case(
        "retry-same-id",
        "prefill's leg is lost, the client gives up after 6 s and tries again under the same id",
        PUSH,
        (
            usual(load(10, 2)),
            Phase((load(4, 2, seed=1, timeout_s=6.0, names=RETRIED),), {"drop": "prefill"}),
            Phase((load(4, 2, seed=1, timeout_s=12.0, names=RETRIED),)),
        ),
        "registration_flight",
        "client",
        dispatch="early",
    ),
    Case(
        "orphaned-prefill",
        "the router never sends the decode leg",
        PUSH,
        (usual(load(10, 2)), Phase((load(8, 2, seed=1),), {"drop": "decode"})),
        "dispatch",
        "router",
        settle_s=LEASE_S + 4,
    ),
    Case(
        "decode-out-of-blocks",
        "twelve prompts of 1,000 tokens at 4/s; decode's cache holds two",
        TIGHT,
        (usual(load(12, 1, 1000)), Phase((load(12, 4, 1000, 128, seed=1),))),
        "decode_admission",
        "decode",
    ),
    Case(
        "early-push-lease-not-renewed",
        "decode's cache is full for longer than prefill's lease, and early legs wait for it",
        TIGHT,
        (
            usual(load(10, 1, 1000)),
            Phase((load(5, 1, 2000, 540, seed=1, timeout_s=45.0),)),
        ),
        "decode_admission",
        "router",
        dispatch="early",
        turn=LAST,
    ),
    Case(
        "aborted-request-pins-blocks",
        "clients give requests up whose prefill leg was lost; those that follow find no room",
        TIGHT,
        (
            usual(load(10, 1, 1000)),
            Phase((load(2, 2, 1000, seed=1, timeout_s=3.0),), {"drop": "prefill"}),
            Phase((load(4, 1, 1000, seed=2, timeout_s=15.0),)),
        ),
        "decode_admission",
        "client",
        dispatch="early",
        turn=AT_THE_END,
    ),
    Case(
        "lease-expired-before-read",
        "the router waits 15 s between the legs, over a lease of 12 s",
        PULL,
        (usual(load(10, 2)), Phase((load(4, 2, seed=1),), {"hold_ms": 15_000})),
        "dispatch",
        "router",
    ),
    Case(
        "completion-noticed-late",
        "decode decodes for 24 others meanwhile, so that it looks once in a long step",
        PULL,
        (
            usual(load(16, 1, 1000), load(16, 1, 100)),
            Phase((load(24, 4, 100, 500, seed=1), load(18, 1, 1000, seed=2, delay_s=8.0))),
        ),
        "poll_gap",
        "decode",
    ),
    Case(
        "id-mismatch-pull",
        "the router names another request of prefill's to decode",
        PULL,
        (usual(load(10, 2)), Phase((load(8, 2, seed=1),), {"misname": "cmpl-other-0-00000000"})),
        "notice",
        "router",
        slug="id-mismatch",
        settle_s=LEASE_S + 4,
    ),
    Case(
        "prefill-dies-at-handshake",
        "prefill is killed between its answer and decode's leg",
        PULL,
        (
            usual(load(10, 2)),
            Phase((load(3, 4, seed=1),), {"hold_ms": 4000}, blows=(Blow(2.5, "p0", "SIGKILL"),)),
        ),
        "failed_attempt",
        "prefill",
        turn=AT_THE_END,
        settle_s=8.0,
    ),
    Case(
        "write-never-posted",
        "decode's core is stopped once it has registered, so that prefill's handshake with it times out",
        CHUNKED,
        (
            Phase((load(1, 1),), {"drop": "decode"}, faulty=False),
            Phase(
                (load(2, 4, 3000, seed=1, timeout_s=22.0),),
                blows=(Blow(0.8, "d0", "SIGSTOP", "EngineCore"), Blow(12.0, "d0", "SIGCONT", "EngineCore")),
            ),
        ),
        "prepare",
        "prefill",
        dispatch="early",
        turn=FIRST,
    ),
    Case(
        "chunked-prefill",
        "prefill computes 64 tokens a step, prompts of 1,000: healthy",
        CHUNKED,
        (usual(load(12, 0.35, 1000)),),
        "",
        "",
        slug="",
    ),
    Case(
        "prefix-hit",
        "each prompt comes twice, and the second time both engines have it: healthy",
        CHUNKED,
        (usual(twice(20, 0.6, 300)),),
        "",
        "",
        slug="",
    ),
    Case(
        "healthy-wide",
        "the control of slow-transport: 16 KiB of KV a token, over shared memory",
        SHARED,
        (usual(load(16, 0.5)),),
        "",
        "",
        slug="",
    ),
    Case(
        "slow-transport",
        "the same over TCP on the loopback, in place of shared memory",
        TCP,
        (Phase((load(16, 0.5),)),),
        "wire",
        "link",
        beside="healthy-wide",
    ),
)

NOT_MADE: dict[str, str] = {
    "expired-leases-not-reaped": "it is mended in the vLLM that the lab runs",
    "too-many-descriptors": "scattered blocks post as fast as others here; it needs a delay put into the library",
    "writer-starved-of-cpu": "it needs a thread that spins inside prefill's worker",
    "transfer-contention": "it needs a link with a limited rate, which loopback is not",
    "slowest-rank": "it needs decode on two ranks, for which two cores are too few",
    "engine-restarted": "it needs an engine started anew in a pair that is up",
    "prompt-list": "the lab's load sends one prompt a request",
    "declined-return-read": "it needs a client that goes on with a conversation once decode's blocks have expired",
    "clock-skew": "it needs engines in time namespaces; tests shift recordings in its place",
    "which-ttft": "it is how somebody reads a recording, and nothing that happens",
    "misread-counters": "it is how somebody reads a recording, and nothing that happens",
}
"""Known incident -> why the lab does not make it."""


def chosen(names: Sequence[str]) -> list[Case]:
    """The cases of these names, each after the one that shows what is usual for it. InputError: there is none such."""
    known = {case.name: case for case in CASES}
    if list(names) == ["all"]:
        return list(CASES)
    for name in names:
        if name in NOT_MADE:
            raise InputError(f"{name} is not made here: {NOT_MADE[name]}")
        if name not in known:
            raise InputError(f"there is no case {name!r}; `kvscope lab incident` lists them")
    wanted = dict.fromkeys(each for name in names for each in (known[name].beside, name) if each)
    return [known[name] for name in wanted]
