"""What is said of each case beside its numbers: the mechanism, what to do about it, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

UNFAMILIAR = "unfamiliar"


@dataclass(frozen=True)
class Text:
    """Sentences about a case."""

    mechanism: str
    do: str
    price: str
    back: str = ""
    """how one sees that it helped"""


TEXTS: dict[str, Text] = {
    "late-registration": Text(
        "the router calls decode after prefill answers, so finished blocks wait for decode to reserve and register",
        "dispatch both legs together; the network is not to blame",
        "decode reserves blocks while prefill still computes: watch reserved-idle and decode_admission",
        "registered before staged is above 95%",
    ),
    "prefill-queue-behind-early-dispatch": Text(
        "decode registers at once and its deadline runs while the prompt still queues on prefill",
        "admit fewer requests at once (admission control in the router), or lengthen decode's deadline",
        "requests wait in the router instead, where nothing is reserved for them",
        "no deadline runs out before prefill's end",
    ),
    "no-handoff": Text(
        "prefill computes the prompt, nobody tells decode where the blocks are, and decode computes it again",
        "mend the router: both legs need their kv_transfer_params; check router and engine versions",
        "none: prefill's work was thrown away",
        "answers without handoff are gone",
    ),
    "slow-first-contact": Text(
        "the first request between two engines pays for their handshake, their first post and their first notification",
        "send a request through each pair before it takes traffic",
        "one request for each pair after every start",
        "first requests are as fast as later ones",
    ),
    "prefill-dies-at-handshake": Text(
        "prefill answered and went away; decode asks it for the blocks and waits for its timeout, or for ever",
        "restart prefill; have the router cancel decode legs of an engine that is gone",
        "those requests have to be computed anew",
        "no handshake fails and nothing waits",
    ),
    "registration-never-matched": Text(
        "decode registered and prefill never got the request: its warning ends nothing, the request stays parked",
        "the router must cancel decode when it loses the prefill leg",
        "none; until then each holds its blocks",
        "no push hangs at registration_sent",
    ),
    "write-never-posted": Text(
        "prefill failed before its write was on the way, and in push nobody tells decode, so that it never recomputes",
        "look for the failure on prefill; have the router cancel decode after a deadline of its own",
        "a deadline costs the requests that would have made it",
        "no failure on prefill's post",
    ),
    "aborted-request-pins-blocks": Text(
        "a decode leg that is aborted while it waits for its blocks keeps them until a transfer that never comes",
        "mend what makes clients give up, then restart decode: nothing else frees these blocks",
        "a restart, and first contacts",
        "decode's free blocks come back when nothing runs",
    ),
    "lease-expired-before-read": Text(
        "decode came after prefill's lease had ended: prefill had let the blocks go, and may have given them to others",
        "lengthen kv_lease_duration, or shorten what lies between the legs: the router's hold, decode's queue",
        "longer leases keep blocks of lost requests for longer",
        "no lease ends before its read",
    ),
    "expired-leases-not-reaped": Text(
        "prefill frees expired blocks only from the head of a list, and a live request at its head keeps all behind it",
        "upgrade vLLM; until then restart prefill",
        "a restart, and first contacts",
        "nothing is kept for longer than a lease",
    ),
    "orphaned-prefill": Text(
        "prefill computed prompts for which decode was never called; their blocks stay until the lease ends",
        "have the router send a clean-up leg when it drops a request",
        "one more call for each dropped request",
        "no lease ends without a decode leg",
    ),
    "slow-transport": Text(
        "the same bytes in as many pieces move at a fraction of their usual rate",
        "check which transport UCX took (UCX_TLS, UCX_LOG_LEVEL=info) and the link between the two hosts",
        "a restart with the right transport",
        "the rate is back at the same bytes",
    ),
    "too-many-descriptors": Text(
        "the blocks of a prompt lie scattered, so that it takes many descriptors to send them, and posting takes long",
        "larger blocks (--block-size), or a cache that is not churned into pieces",
        "larger blocks waste more of the last one",
        "descriptors per MiB are back",
    ),
    "writer-starved-of-cpu": Text(
        "the thread that prepares and posts gets no CPU, so that everything it does takes longer",
        "give the engine's process a core of its own; look for threads that hold the GIL (kvscope profile)",
        "a core",
        "posts are short at the same descriptors",
    ),
    "completion-noticed-late": Text(
        "a completion is looked for once a step, so that bytes that are there wait for the end of a long step",
        "shorter steps on the engine that polls: --max-num-batched-tokens on prefill, --max-num-seqs on decode",
        "smaller batches give fewer tokens per second",
        "poll_gap is back; vLLM's nixl_xfer_time will wrongly say transfer",
    ),
    "transfer-contention": Text(
        "transfers share a link, and each is slower the more of them there are",
        "cap how many are in flight: admission in the router, fewer prefills at once",
        "requests wait before prefill instead",
        "the rate among others is the rate alone",
    ),
    "slowest-rank": Text(
        "a request is ready when its last rank is, and one pair of ranks is later than the others",
        "look at that rank's link and core; the same tensor parallel size on both sides sends fewer pieces",
        "none",
        "the last rank ends with the first",
    ),
    "decode-out-of-blocks": Text(
        "running requests hold decode's blocks; the next is not admitted, and the first in line keeps all behind it",
        "more decode cache or engines, or fewer requests at once (--max-num-seqs, admission in the router)",
        "engines, or requests that wait in the router",
        "decode_admission is back",
    ),
    "prefix-hit-or-leak": Text(
        "decode reserved blocks for requests and began no transfer that would ever end their wait",
        "upgrade the connector; until then restart decode when its free blocks do not come back",
        "a restart, and first contacts",
        "decode's free blocks come back when nothing runs",
    ),
    "prefill-saturated": Text(
        "more prompts come than prefill computes; decode's wait for remote KV is prefill's queue and no transfer",
        "more prefill engines, or spread the prompts evenly over those there are",
        "engines",
        "prompts wait for less time than they run",
    ),
    "writer-handed-blocks-a-step-late": Text(
        "prefill's worker hands finished blocks to its writer after its next step, so that a long one delays the write",
        "shorter steps on prefill (--max-num-batched-tokens), or more prefill engines; neither router nor network",
        "chunks of a prompt cost some prefill throughput",
        "staging is back",
    ),
    "chunked-prefill": Text(
        "a prompt is computed in chunks, and the steps between them go to other prompts' chunks",
        "larger --max-num-batched-tokens, or more prefill engines",
        "longer steps delay what waits for their ends",
        "prefill_gap is back",
    ),
    "engine-restarted": Text(
        "requests are still sent to the engine that was there before; in push it is never given up",
        "have the router forget an engine's coordinates when it is replaced",
        "none",
        "no request names the old engine",
    ),
    "retry-same-id": Text(
        "a retry came under the id of an attempt that was over; prefill took the old registration and wrote there",
        "give every attempt an id of its own, in the client and in a router that tries again",
        "none",
        "no match of a request that is over",
    ),
    "early-push-lease-not-renewed": Text(
        "an early router cannot know prefill's id, so decode's heartbeats renew nothing while it waits for blocks",
        "lengthen kv_lease_duration, or admit fewer requests at once",
        "longer leases keep blocks of lost requests for longer",
        "decode waits for less than the lease",
    ),
    "id-mismatch": Text(
        "the two legs of a request carry ids that do not go together, so that no half finds the other",
        "have the router send one X-Request-Id on both legs, and remote_request_id as prefill returned it",
        "none",
        "no half is left unmatched",
    ),
    "prompt-list": Text(
        "prompts in one request share the coordinates of the first one's blocks; pull cannot hand them over",
        "have the router split lists into requests",
        "more requests",
        "no list reaches the engines",
    ),
    "declined-return-read": Text(
        "prefill would have read an earlier turn's blocks back from decode, and their lease there was over, or nearly",
        "lengthen decoder_kv_blocks_ttl to what users take between turns",
        "decode keeps blocks of finished turns for longer",
        "later turns are read back",
    ),
    "clock-skew": Text(
        "moments of one request come from clocks that do not agree, so that no time between them means anything",
        "look at time namespaces and time services; record each host with its own clock known",
        "none",
        "nothing is out of order",
    ),
    UNFAMILIAR: Text(
        "no case that is known shows this; the stage is measured, its cause is not",
        "look at the requests below, and at what changed then",
        "not known",
    ),
}

MISSING: dict[str, str] = {
    "router": "the router's own moments",
    "frontend": "what the API server's process did: kvscope profile",
    "dispatch": "the router's moments between prefill's answer and decode's call",
    "intake": "what the engine's step did meanwhile: kvscope profile",
    "prefill_queue": "who was ahead in prefill's queue",
    "prefill_run": "what else ran on prefill's device, and its clock rates",
    "prefill_gap": "whose chunks ran in between",
    "preempted": "who took the blocks",
    "decode_admission": "a reason for which decode held it back",
    "registration_handoff": "what decode's forward thread did: kvscope profile",
    "registration_send": "what decode's writer did: kvscope profile",
    "registration_flight": "what prefill's writer did until it looked: kvscope profile",
    "staging": "what prefill's forward thread did: kvscope profile",
    "writer_wake": "what prefill's writer did: kvscope profile",
    "match": "what prefill's writer did: kvscope profile",
    "handshake": "the peer's side of the handshake",
    "read_handoff": "what decode's forward thread did: kvscope profile",
    "prepare": "what was done inside: kvscope profile",
    "submit": "what the library did inside the post",
    "wire": "what else used the link",
    "poll_gap": "when the last byte came",
    "notice": "when prefill polled",
    "pickup": "what decode's forward thread did: kvscope profile",
    "report": "what decode's engine core did: kvscope profile",
    "failed_attempt": "a reason that is known",
    "decode_queue": "who was ahead on decode",
    "decode_run": "what else ran on decode's device",
    "unattributed": "moments that were not recorded",
}
"""stage -> what would have to be seen to name the cause of its growth"""
