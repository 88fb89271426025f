"""A question and its answer between two hosts: four instants, two on each clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exchange:
    """`host` asked and `peer` answered. Instants are ns, CLOCK_MONOTONIC of whoever took them.

    The answer was not received before it was sent, nor the question. So, of what has to be added to a time of `host` to
    get `peer`'s: it is no more than `received - sent`, and no less than `replied - back`.
    """

    host: str
    """As `Process.host` has it: it changes with each boot."""
    peer: str
    """The same of the one that answered."""
    sent: int
    """by `host`: taken before the question was written"""
    received: int
    """by `peer`: taken when the question was there"""
    replied: int
    """by `peer`: taken before the answer was written"""
    back: int
    """by `host`: taken when the answer was there"""

    @property
    def round_trip_ns(self) -> int:
        """On the way, there and back."""
        return (self.back - self.sent) - (self.replied - self.received)

    @property
    def possible(self) -> bool:
        """Whether clocks that do not run backwards can have shown these."""
        return self.sent <= self.back and self.received <= self.replied and self.round_trip_ns >= 0
