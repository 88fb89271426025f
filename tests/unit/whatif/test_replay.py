"""A world whose causes are known, seen in one mode and then run in another: the estimate's bounds hold what happens."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kvscope.core.critical_path import split
from kvscope.whatif.costs import IDLE_NS, costs_of
from kvscope.whatif.mode import MODES, Mode
from kvscope.whatif.replay import Replayed, replay
from kvscope.whatif.seen import gather_seen

from ..core.scene import events_of
from ..core.simulator import Cause, Edge, causes, edges_of, items, simulate

EARLY, SEQUENTIAL, PULL = MODES


def worlds(shape: str, knew: bool) -> st.SearchStrategy[Cause]:
    """A request that a router got, served in one mode."""
    return (
        causes(shapes=(shape,)).filter(lambda cause: cause.knew is knew).map(lambda cause: replace(cause, routed=True))
    )


def said(world: Cause, to: Mode) -> Replayed:
    events = events_of(items(world))
    seen, left = gather_seen(events, split(events))
    assert (len(seen.splits), left.untimed, left.otherwise) == (1, 0, 0)
    return replay(costs_of(seen, to), to)


def run_as(world: Cause, shape: str, knew: bool, delays: dict[Edge, int]) -> dict[str, int]:
    """The world run in another mode; edges that are not told take what they took."""
    known = {**{(to, frm): ns for (to, frm), ns in world.delays}, **delays}
    edges = edges_of(shape, knew, world.in_flight)
    return simulate(replace(world, shape=shape, knew=knew, delays=tuple((edge, known[edge]) for edge in edges)))


def holds(found: Replayed, t: dict[str, int]) -> None:
    for bounds, node in ((found.computed, "P.computed"), (found.reserved, "D.reserved"), (found.ready, "noticed"),
                         (found.ttft, "first_token")):  # fmt: skip
        low, high = bounds[:, 0].tolist()
        assert low <= t[node] - t["origin"] <= high, node


@given(worlds("push", True))
def test_push_called_early_instead(world: Cause) -> None:
    t = run_as(world, "push", False, {("D.arrived", "origin"): dict(world.delays)[("P.arrived", "origin")]})
    found = said(world, EARLY)
    holds(found, t)
    assert found.ttft[1, 0] - found.ttft[0, 0] <= dict(world.delays)[("D.arrived", "P.computed")] + 500_000


@given(worlds("push", False), st.floats(0, 2))
def test_push_called_after_prefill_instead(world: Cause, share: float) -> None:
    took = dict(world.delays)[("D.arrived", "origin")]
    t = run_as(world, "push", True, {("D.arrived", "P.computed"): round(share * took)})
    holds(said(world, SEQUENTIAL), t)


@given(st.data(), worlds("pull", True), st.booleans())
def test_push_instead_of_pull(data: st.DataObject, world: Cause, early: bool) -> None:
    """What only a push has takes anything that its bounds allow."""
    was, draw = dict(world.delays), data.draw

    def between(low: int, high: int) -> int:
        return low + round(draw(st.floats(0, 1)) * (high - low))

    step, prefill_step = was["first_token", "D.scheduled"], max(was["P.computed", "P.scheduled"], IDLE_NS)
    flying = was.get(("pending_seen", "posted"), 0)
    landing = was.get(("transferred", "pending_seen"), 0) + was["noticed", "transferred"] + step
    t = run_as(world, "push", not early, {
        ("D.arrived", "origin"): was["P.arrived", "origin"],
        ("D.handed", "D.reserved"): was["post_begun", "D.reserved"],
        ("registration_sent", "D.handed"): between(0, step),
        ("registration_received", "registration_sent"): between(0, prefill_step),
        ("P.handed", "P.computed"): between(0, prefill_step),
        ("staged", "P.handed"): 0,
        ("matched", "both"): 0,
        ("prepared", "matched"): was["prepared", "post_begun"],
        ("pending_seen", "posted"): flying,
        ("transferred", "pending_seen"): 0,
        ("notified", "transferred"): 0,
        ("noticed", "notified"): between(0, landing),
    })  # fmt: skip
    holds(said(world, EARLY if early else SEQUENTIAL), t)


@given(st.data(), worlds("push", False))
def test_pull_instead_of_an_early_push(data: st.DataObject, world: Cause) -> None:
    was, draw = dict(world.delays), data.draw
    flying = was.get(("pending_seen", "posted"), 0)
    landing = was.get(("transferred", "pending_seen"), 0) + was["notified", "transferred"] + was["noticed", "notified"]
    most = landing + was["first_token", "D.scheduled"]
    t = run_as(world, "pull", True, {
        ("D.arrived", "P.computed"): round(draw(st.floats(0, 2)) * was["D.arrived", "origin"]),
        ("post_begun", "D.reserved"): was["D.handed", "D.reserved"],
        ("prepared", "post_begun"): was["prepared", "matched"],
        ("pending_seen", "posted"): flying,
        ("transferred", "pending_seen"): 0,
        ("noticed", "transferred"): round(draw(st.floats(0, 1)) * most),
    })  # fmt: skip
    holds(said(world, PULL), t)


@given(worlds("push", True))
def test_what_a_router_held_is_saved_by_calling_decode_early(world: Cause) -> None:
    held = replace(world, parked=False).delayed(("D.arrived", "P.computed"), 30_000_000)
    t = simulate(held)
    low = int(said(held, EARLY).ttft[0, 0])
    assert low < t["first_token"] - t["origin"] - 29_000_000
