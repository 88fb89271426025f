"""What engines held adds up to what all held, and before a change is told as it was then."""

from __future__ import annotations

import pytest

from kvscope.live.ledger import Account, accounts, backlog
from kvscope.live.snapshot import Snapshot

from ..core.scene import MS
from .fleet import request, stretch
from .picture import Items, picture, started, steps

BLOCKS = {"d0": 8, "d1": 16}


def with_blocks(items: Items) -> Items:
    """8 blocks reserved on d0, 16 on d1, 4 held on prefill."""
    told = {("reserved", engine): blocks for engine, blocks in BLOCKS.items()} | {("computed", "p0"): 4}
    return [
        {**item, "blocks": told[at]} if (at := (item["moment"], item["engine"])) in told else item for item in items
    ]


def fleet() -> Snapshot:
    """Ten early pushes to d0, five to d1, and one under way on d1 that has reserved its blocks."""
    items = [started(name, kv_blocks=kv, mode="push") for name, kv in (("p0", 100), ("d0", 100), ("d1", 200))]
    for number in range(15):
        items += request("early", number, 100.0 * number, decode=f"d{number % 3 // 2}")
    items += [item for item in request("early", 99, 1_500, decode="d1") if item["t"] <= 1_560 * MS]
    return picture([*with_blocks(items), *steps("d0", [10.0] * 9)], 2)


def of(found: tuple[Account, ...]) -> dict[str, Account]:
    return {account.engine: account for account in found}


def test_each_engine_has_what_its_requests_held() -> None:
    found = of(accounts(fleet()))
    assert list(found) == ["d0", "d1", "p0"]
    first, second = found["d0"].reserved, found["d1"].reserved
    assert first is not None
    assert second is not None
    # reserved at 4, transferred at 120
    assert (first.requests, first.still, first.p50_ns, first.engines) == (10, 0, 116 * MS, 1)
    assert first.block_s == pytest.approx(10 * 8 * 0.116)
    assert first.capacity == pytest.approx(10 * 8 * 0.116 / (100 * 2))
    assert (second.requests, second.still) == (6, 1)
    assert second.block_s == pytest.approx(5 * 16 * 0.116 + 16 * (0.5 - 0.004))
    pinned = found["p0"].pinned
    assert pinned is not None
    # computed at 105, released at 130
    assert (pinned.requests, pinned.p50_ns) == (15, 25 * MS)
    assert pinned.block_s == pytest.approx(15 * 4 * 0.025)
    assert (found["d0"].pinned, found["p0"].reserved) == (None, None)
    assert (found["d0"].connector_share, found["p0"].connector_share) == (0.1, None)
    assert (found["p0"].wake_p95, found["d0"].wake_p95) == (1 * MS, None)


def test_they_add_up_to_what_the_summary_says_of_all() -> None:
    snapshot = fleet()
    found = accounts(snapshot)
    for side in ("reserved", "pinned"):
        whole = getattr(snapshot.summary.price, side)
        parts = [part for account in found if (part := getattr(account, side)) is not None]
        assert sum(part.block_s for part in parts) == pytest.approx(whole.block_s)
        assert sum(part.requests for part in parts) == whole.requests
        assert sum(part.still for part in parts) == whole.still
        assert sum(part.engines for part in parts) == whole.engines
    reserved = snapshot.summary.price.reserved
    assert reserved.block_s is not None
    assert reserved.capacity == pytest.approx(reserved.block_s / (300 * 2))


def test_the_share_of_an_engine_that_did_not_tell_its_blocks_is_not_known() -> None:
    items = [started("d0", kv_blocks=100)]
    for number in range(6):
        items += request("early", number, 100.0 * number, decode=f"d{number % 2}")
    found = of(accounts(picture(with_blocks(items), 2)))
    shares = {name: account.reserved.capacity for name, account in found.items() if account.reserved is not None}
    assert shares["d0"] is not None
    assert shares["d1"] is None


def test_writers_backlogs_are_added_up() -> None:
    handed = [item for item in request("early", 1, 0) if item["t"] <= 107 * MS]
    found = backlog(picture(handed, 1))
    assert (found.blocks, found.registrations, found.writers) == (1, 0, 2)
    assert backlog(picture([], 1)).writers == 0


def test_what_was_held_before_a_change_is_told_as_it_was_then() -> None:
    items = [started(name, kv_blocks=100, mode="push") for name in ("p0", "d0")]
    parts = stretch("early", 0, 20) + stretch("sequential", 20, 40, first=1000, delay_ms=500)
    regime = picture(with_blocks(items + [item for part in parts for item in part]), 40).regime
    assert regime is not None
    assert regime.before is not None
    held = regime.before.reserved
    assert held.p50_ns == 116 * MS
    # ten requests a second, each with 8 of 100 blocks for 116 ms
    assert held.capacity == pytest.approx(10 * 8 * 0.116 / 100, rel=0.05)
