"""Two sides, what differs between them, and what that can be trusted for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kvscope.comparison.alike import Alike, alike
from kvscope.comparison.conditions import Condition, Weight, conditions
from kvscope.comparison.differences import Difference, differences
from kvscope.comparison.seams import Seam, crossed
from kvscope.comparison.side import EXPOSED, HIDDEN, TTFT, Side
from kvscope.model.counting import count
from kvscope.model.errors import InputError

COVERED = 0.5
"""Of a side, so much at least must be alike; of less it is said that most of it is not compared."""


@dataclass(frozen=True)
class Verdict:
    """What came of a comparison."""

    one: Side
    other: Side
    same: Alike
    conditions: tuple[Condition, ...]
    differences: tuple[Difference, ...]
    seams: tuple[Seam, ...] = ()

    @cached_property
    def ttft(self) -> Difference | None:
        """Of the time to first token."""
        return next((each for each in self.differences if each.figure.name == TTFT), None)

    def of_kind(self, kind: str) -> list[Difference]:
        """Stages, EXPOSED or HIDDEN, the surest and largest first."""
        mine = [each for each in self.differences if each.figure.kind == kind]
        return sorted(mine, key=lambda each: (not each.sure, -abs(each.value)))

    @property
    def exposed(self) -> list[Difference]:
        """Stages on the path."""
        return self.of_kind(EXPOSED)

    @property
    def hidden(self) -> list[Difference]:
        """Stages beside it."""
        return self.of_kind(HIDDEN)

    @property
    def running(self) -> list[Difference]:
        """What becomes of requests that have their first token."""
        return [each for each in self.differences if each.figure.running]

    @property
    def covered(self) -> tuple[float, float]:
        """Of each side, the share that is compared."""
        one, other = self.same.counts
        return one / len(self.one), other / len(self.other)


def compared(one: Side, other: Side, anyway: bool = False) -> Verdict:
    """Compare. InputError: nothing can be said, or (unless `anyway`) no number would mean anything."""
    for side in (one, other):
        if not len(side):
            raise InputError(f"{side.name} has no request with a time to first token; record while requests are served")
    found = conditions(one, other)
    refused = [each for each in found if each.weight is Weight.REFUSE]
    if refused and not anyway:
        told = ", ".join(f"{each.name} {each.was} and {each.now}" for each in refused)
        raise InputError(f"{one.name} and {other.name} are not comparable: {told}; --anyway compares them all the same")
    same = alike(one, other)
    if not len(same.weights):
        raise InputError(
            f"no requests of {one.name} and {other.name} are alike: of {count(len(one), 'request')} and"
            f" {count(len(other), 'request')} no three have about as many tokens computed, bytes moved and others under"
            " way on both sides; record both under the same load, and more of it"
        )
    seams = crossed(one.setup, other.setup)
    return Verdict(one, other, same, tuple(found), tuple(differences(one, other, same)), seams)
