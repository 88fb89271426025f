"""An incident that is made on real engines is recorded from its begin on, and named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kvscope.core.critical_path import split
from kvscope.lab import client
from kvscope.lab.case import read_truth
from kvscope.lab.cases import CASES
from kvscope.lab.front import RouterProcess
from kvscope.lab.making import Scene
from kvscope.lab.progress import Plain
from kvscope.sources import open_sources
from tests.lab.rig import Rig
from tests.lab.screens import printed

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

HOLD_MS = 600
"""Three times what the case has: it is to be told on a busy machine, too."""


def test_a_router_that_waits_is_told_from_what_was_usual(
    push_pair: Rig, push_router: RouterProcess, tmp_path: Path
) -> None:
    case = next(case for case in CASES if case.name == "late-registration")
    usual, late = case.phases
    case = replace(case, phases=(usual, replace(late, conduct={"hold_ms": HOLD_MS})))
    scene = Scene(push_pair, push_router, Plain())
    scene.warm_up()
    made = scene.play(case, tmp_path / case.name)
    assert made.lost == 0
    assert read_truth(made.folder / "truth.json") == made.truth
    records = client.read(made.folder / "client.jsonl")
    assert all(record.ok for record in records), [record.error for record in records if not record.ok]
    splits = split(open_sources([made.recording]).events)
    assert splits.timed.sum() == len(records), "what the pair did before is left out"
    found = json.loads(printed("diagnose", "--json", str(made.recording)))["findings"]
    print([(finding["slug"], finding["stage"], finding["share"]) for finding in found])
    assert found[0]["slug"] == case.expected
    assert (found[0]["stage"], found[0]["class"]) == (case.stage, case.cls)
