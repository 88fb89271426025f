"""The names a record may carry, each tuple's index being the code written to disk.

This is the one list of moments, legs, thread roles, states and reasons. Codes are part of the byte
layout: append, never reorder (`layout.VERSION` guards it). What the moments *mean*, and which stages
they bound, is `kvscope.model`'s; this module stays free of imports because engines load it.
"""

MOMENTS: tuple[str, ...] = (
    "none",
    # router
    "received",
    "prefill_sent",
    "prefill_returned",
    "decode_sent",
    "first_byte",
    # either engine, in the life of a request
    "arrived",
    "taken",
    "queued",
    "scheduled",
    "chunk",
    "computed",
    "handed",
    "staged",
    "registration_received",
    "matched",
    "handshake_begun",
    "handshake_ended",
    "post_begun",
    "prepared",
    "posted",
    "pending_seen",
    "done_seen",
    "held",
    "reserved",
    "registration_sent",
    "notified",
    "noticed",
    "ready",
    "first_token",
    "finished",
    "preempted",
    "resumed",
    "released",
    "failed",
    # engine-scoped
    "started",
    "step",
    "load",
)

LEGS: tuple[str, ...] = ("none", "prefill", "decode", "router", "engine")

# Who stamped it. Names follow the engine's own thread names where it has them.
THREADS: tuple[str, ...] = (
    "unknown",
    "api",  # API server's event loop
    "input",  # EngineCore's input-socket thread
    "core",  # EngineCore's main thread
    "worker",  # Worker's main thread (the forward thread)
    "writer",  # nixl-push-writer
    "handshake",  # vllm-nixl-handshake-initiator
    "listener",  # nixl_handshake_listener
    "reader",  # a connector's background reader, where a release has one
    "router",
)

STATES: tuple[str, ...] = ("none", "PROC", "DONE", "ERR")

# Why a request was held, failed or finished. Engines may add texts of their own: code 0 plus a text.
REASONS: tuple[str, ...] = (
    "none",
    # held
    "blocks",
    "slot",
    "budget",
    "preemption",
    "remote_kv",
    "other",
    # finished
    "stop",
    "length",
    "abort",
    "error",
    # failed
    "handshake_setup_failed",
    "handshake_failed",
    "push_reg_handshake_failed",
    "push_handshake_failed",
    "push_reg_notif_failed",
    "transfer_setup_failed",
    "transfer_failed",
    "transfer_exception",
    "transfer_release_failed",
    "notification_failed",
    "registration_no_agents",
    "registration_undecodable",
    "registration_expired",
    "no_blocks",
    "writer_exception",
    "invalid_engine",
    "read_expired",
    "unrecognized_notification",
    "lease_expired",
    "load_failed",
)

# Of these, why something failed.
FAILURES: tuple[str, ...] = REASONS[REASONS.index("handshake_setup_failed") :]

# Whether blocks go P -> D (the handoff) or D -> P (the return read of a later turn).
DIRECTIONS: tuple[str, ...] = ("none", "to_decode", "to_prefill")

# The integers a record carries, by moment; at most `layout.VALUES`. Absent means UNKNOWN, never 0.
UNKNOWN = -(2**63)

VALUES: dict[str, tuple[str, ...]] = {
    "received": ("traceparent",),
    "arrived": ("wall_ns",),
    "queued": ("tokens", "direction", "turn", "peer_engine", "traceparent"),
    "scheduled": ("tokens", "cached"),
    "chunk": ("tokens",),
    "computed": ("tokens", "blocks"),
    "handed": ("blocks", "peer_engine"),
    "staged": ("blocks",),
    "registration_received": ("looked", "blocks", "peer_engine"),
    "registration_sent": ("bytes", "peer_engine"),
    "matched": ("blocks", "peer_engine"),
    "handshake_begun": ("peer_engine",),
    "handshake_ended": ("peer_engine", "rtt_ns", "offset_ns"),
    "post_begun": ("blocks", "peer_engine"),
    "prepared": ("descriptors",),
    "posted": ("descriptors",),
    "pending_seen": (),
    # nixl_*: what the library itself measured, in ns of this host's monotonic clock
    "done_seen": ("bytes", "descriptors", "nixl_start", "nixl_post", "nixl_duration"),
    "held": ("blocks", "free_blocks"),
    "reserved": ("blocks", "tokens", "cached", "peer_engine"),
    "noticed": (),
    "ready": (),
    "first_token": ("tokens",),
    "finished": ("tokens", "largest_gap"),
    "preempted": (),
    "released": ("blocks",),
    "failed": ("peer_engine", "reason_text"),
    # t is the step's end
    "step": ("begin", "requests", "tokens", "connector_ns", "folded"),
    "load": ("waiting", "running", "held", "free_blocks"),
}

# Values that are texts: an engine's id or stable name, an engine's own words, the span that a request came under.
TEXT_VALUES = frozenset(("peer_engine", "reason_text", "traceparent"))

MOMENT_CODE: dict[str, int] = {name: code for code, name in enumerate(MOMENTS)}
LEG_CODE: dict[str, int] = {name: code for code, name in enumerate(LEGS)}
THREAD_CODE: dict[str, int] = {name: code for code, name in enumerate(THREADS)}
STATE_CODE: dict[str, int] = {name: code for code, name in enumerate(STATES)}
REASON_CODE: dict[str, int] = {name: code for code, name in enumerate(REASONS)}
DIRECTION_CODE: dict[str, int] = {name: code for code, name in enumerate(DIRECTIONS)}
