"""What is known of one request: its path to the first token, what was hidden behind it, what it cost.

All times are ns; instants are CLOCK_MONOTONIC of the reference host. `None` says "not known", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

Bounds = tuple[int, int]


class State(StrEnum):
    """Whether a request may enter a percentile. Exactly one holds."""

    COMPLETE = "complete"
    ONE_LEGGED = "one_legged"
    """Its peer is known and not instrumented: counts in its leg's stages, never in TTFT."""
    INCOMPLETE = "incomplete"
    """A required moment is missing; `missing` names it."""
    UNFINISHED = "unfinished"
    """No first token and no end yet; `last_moment` and `age_ns` say where it stands."""
    UNMATCHED = "unmatched"
    """A leg that ended and whose other leg was never seen, though that engine is not known to be dark."""
    UNALIGNED = "unaligned"
    """Nothing is missing, but its moments lie on clocks of several hosts that nothing aligned: no time across them."""


STATES: tuple[State, ...] = tuple(State)


@dataclass(frozen=True, slots=True)
class Span:
    """One stage of one request, as it lies in time."""

    stage: str
    begin: int
    end: int
    ended_by: str
    """The moment that ended it, as the graph writes it: `D.scheduled`, `posted`, `transferred`."""
    leg: str
    """Where it ended: prefill, decode or router."""
    step: int | None = None
    """The engine step running at the ending moment."""
    exposed: bool = True
    """On the path (exposed) or behind it (hidden)."""
    bound_ns: int = 0
    """By how much it may be wrong, having been measured from one host to another; 0 on one."""

    @property
    def ns(self) -> int:
        return self.end - self.begin

    @property
    def uncertain(self) -> bool:
        """It is not longer than it may be wrong by."""
        return 0 < self.bound_ns >= self.ns


@dataclass(frozen=True, slots=True)
class Stamp:
    """One moment of the request, for waterfalls and for "last moment"."""

    leg: str
    moment: str
    t: int
    step: int | None = None
    thread: str = "unknown"


@dataclass(frozen=True)
class RequestSplit:
    """One request, split. Made from a row of `Splits`."""

    request: str
    """The decode engine's id, else the prefill engine's."""
    peer_request: str
    """The prefill engine's id where both are known, else empty."""
    shape: str
    state: State
    missing: tuple[str, ...] = ()
    """Required moments that were never seen, as the graph writes them."""

    origin: int | None = None
    first_token: int | None = None
    ttft_ns: int | None = None
    """Only of complete requests."""
    path: tuple[Span, ...] = ()
    """In time order, gapless from origin to first token; zero-length stages are left out. Of an incomplete or
    one-legged request: what its moments allow, gaps being `unattributed`."""
    hidden_spans: tuple[Span, ...] = ()
    """Off the path, in time order."""
    exposed: dict[str, int] = field(default_factory=dict)
    """stage -> ns on the path; zero-length left out"""
    hidden: dict[str, int] = field(default_factory=dict)
    """stage -> ns off the path; zero-length left out"""
    slack_ns: dict[str, Bounds] = field(default_factory=dict)
    """hidden branch (`registration` or `staging`) -> how much later it could have ended, low and high"""
    class_ns: dict[str, Bounds] = field(default_factory=dict)
    """class -> exposed ns, low and high: only what `submit` and `poll_gap` touch differs"""
    coordination_ns: Bounds = (0, 0)
    """Exposed coordination: without and with `submit` and `poll_gap`."""
    transfer_bounds_ns: Bounds = (0, 0)
    """`wire`, and `submit + wire + poll_gap`."""
    dispatch_parts: dict[str, int] = field(default_factory=dict)
    """reply, router_hold, hop: where the router reports its moments"""

    reserved_idle_ns: int | None = None
    """D's blocks held empty: reserved -> transferred"""
    reserved_blocks: int | None = None
    pinned_ns: int | None = None
    """P's blocks held: computed -> released"""
    pinned_blocks: int | None = None

    prefill_engine: str = ""
    decode_engine: str = ""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    transfer_bytes: int | None = None
    descriptors: int | None = None
    ranks: int = 0
    """Transfers (rank pairs) that made up the handoff."""
    rank_spread_ns: int = 0
    """The last transfer's end less the first's."""
    slowest_rank: tuple[int, int] | None = None
    """(prefill rank, decode rank) that the request waited for, where there was more than one"""
    post_thread: str = "unknown"
    """Thread role that prepared and submitted the transfer."""

    tpot_ns: float | None = None
    largest_gap_ns: int | None = None
    finish_reason: str = ""
    failure: str = ""
    """Reason of the first `failed`, with the leg it struck: `decode transfer_failed`."""
    last_moment: str = ""
    """The latest moment seen, e.g. `decode registration_sent`."""
    age_ns: int | None = None
    """Of an unfinished request: from its origin to the latest event of the whole set."""
    idle_ns: int | None = None
    """Of an unfinished request: from its last moment to the latest event of the whole set."""
    marks: tuple[str, ...] = ()
    """clock_step, recompute, stale_match, shared_prefill, preempted, order_violation, retried, unaligned"""
    knew_peer: bool | None = None
    """Whether the decode leg was dispatched knowing the prefill leg's outcome; None without two legs."""
    stamps: tuple[Stamp, ...] = ()
    """Every moment used, in time order."""
    clock_bound_ns: int | None = 0
    """By how much a time from one host to another may be wrong; 0: one clock; None: its clocks do not compare"""
    between_clocks: tuple[str, ...] = ()
    """Stages that were measured from one host to another."""
    moved_ns: dict[str, int] = field(default_factory=dict)
    """leg -> what was added to its own clock to get the instants given here, where that is not 0"""

    @property
    def complete(self) -> bool:
        return self.state is State.COMPLETE

    @property
    def one_legged(self) -> bool:
        return self.state is State.ONE_LEGGED


@dataclass(frozen=True)
class Tally:
    """What was counted beside the results. Stands wherever their numbers stand."""

    events: int = 0
    lost: int = 0
    """Overwritten in a ring before they were read, since reading began."""
    earlier: int = 0
    """Overwritten before reading began: what the rings no longer held. Requests of that time may be cut."""
    duplicates: int = 0
    late: int = 0
    """Came after their request had been closed (streaming only)."""
    out_of_bounds: int = 0
    """Unknown code, impossible time or unknown process."""
    strays: int = 0
    """A router's records, and registrations (streaming only), that belong to no request that was seen. Requests of
    which one leg was never seen are not among them: those are in the state `unmatched`."""
    ambiguous: int = 0
    """Joins refused because several candidates fitted."""
    order_violations: int = 0
    """Moments that lie after one that depends on them."""
    stale_matches: int = 0
    cleanups: int = 0
    """Queued by an API server to have another request's blocks freed: nobody asked for them, they are no requests."""
    evicted: int = 0
    """Requests given up to keep memory bounded (streaming only)."""

    def __add__(self, other: Tally) -> Tally:
        return self._with(other, 1)

    def __sub__(self, other: Tally) -> Tally:
        return self._with(other, -1)

    def _with(self, other: Tally, sign: int) -> Tally:
        names = self.__dataclass_fields__
        return Tally(**{name: getattr(self, name) + sign * getattr(other, name) for name in names})
