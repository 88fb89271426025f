"""Sentences on sources, as their makers make them: which of them say that a number may be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.model.events import Gap, Process
from kvscope.sources.absent import absent
from kvscope.sources.folders import Member
from kvscope.sources.harmless import impairing
from kvscope.sources.opening import open_all
from kvscope.sources.recording import Holding, faults, rounded
from kvscope.sources.twice import counted_twice, told_twice

from .routers_written import dynamo_lines, llmd_spans, otlp_json, router_moments, without_router

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
SECOND = 10**9


def test_what_is_missing_damaged_or_counted_twice_impairs() -> None:
    gap = Process("p0", wall_ns=0, gaps=(Gap(10 * SECOND, 70 * SECOND, 400),))
    notes = (
        *faults("a.kvs", 1, False, True, Holding(5, 5)),
        *faults("a.kvs", 0, False, True, Holding(5, 7)),
        *absent([gap]),
        *counted_twice(3),
        "left out: a.kvs is empty",
        "a.jsonl: moments that this version does not know are left out: beamed (1)",
        "a.kvs was removed before it was read; its events are missing",
        "anything that is not known",
    )
    assert impairing(notes) == notes


def test_what_is_good_to_know_does_not(tmp_path: Path) -> None:
    (tmp_path / "empty.kvs").touch()
    (tmp_path / "folder.kvs").mkdir()
    (tmp_path / "newer.jsonl").write_text('{"t": 1, "engine": "p0", "leg": "prefill", "moment": "arrived", "new": 1}\n')
    notes = (
        *faults("a\n.kvs", 0, True, False, Holding(5, 0)),
        *rounded("a.kvs", {"shared": "rounded"}),
        *absent([Process("p0", before=7)]),
        *told_twice(50),
        Member(str(tmp_path / "empty.kvs"), part=True).why_empty,
        Member(str(tmp_path / "folder.kvs"), part=True).why_empty,
        *open_all([tmp_path / "newer.jsonl"], None).notes,
    )
    assert len(notes) == 7
    assert impairing(notes) == ()


@pytest.mark.parametrize("router", ["dynamo", "llmd"])
def test_what_a_router_s_file_gave_does_not(router: str, tmp_path: Path) -> None:
    whole = PICTURES / "push-early.kvs"
    told = router_moments(open_all([whole], None).events)
    spans = [otlp_json(llmd_spans(name, moments)) for name, moments in told.items()]
    (tmp_path / "log").write_text("\n".join(dynamo_lines(told) if router == "dynamo" else spans) + "\n")
    notes = open_all([without_router(whole, tmp_path / "engines.kvs"), tmp_path / "log"], None).notes
    assert notes
    assert impairing(notes) == ()
