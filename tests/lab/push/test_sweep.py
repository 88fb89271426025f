"""A sweep of engines that run already: what it says of their requests is what their client saw, and where it went."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.lab.front import RouterProcess
from kvscope.lab.progress import Plain
from kvscope.lab.sweeping.drive import Sweep
from kvscope.lab.sweeping.folder import opened
from kvscope.lab.sweeping.plan import SweepOptions, cells
from kvscope.sweep.render.page import page
from kvscope.sweep.results import gather
from tests.lab.rig import Rig

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


def test_two_cells_of_a_pair_that_runs(push_pair: Rig, push_router: RouterProcess, tmp_path: Path) -> None:
    push_router.control(dispatch="sequential", hold_ms=0.0)
    options = SweepOptions(
        target=push_router.url, input_tokens=(150, 300), rates=(4.0,), requests=12, output_tokens=4
    ).checked()
    with opened(tmp_path / "sweep", options) as kept:
        Sweep(kept, Plain(), lambda _: None).run(push_pair.run_dir)
        results = gather(kept, {})
    assert [each.cell for each in results.cells] == cells(options)
    for each in results.cells:
        assert each.inside is not None, each.notes
        assert (each.answered, each.unfinished, each.lost, each.inside.others) == (12, 0, 0, 0), each.failures
        assert each.ttft.keys() == each.client_ttft.keys()
        # The client's clock runs from its sending to its hearing of it: around what the engines saw.
        assert all(0 < ns <= each.client_ttft[key] for key, ns in each.ttft.items())
        assert sum(each.inside.classes.values()) == pytest.approx(sum(each.ttft.values()) / 12)
        assert each.as_it_runs == "push, sequential"
        assert {record.prompt_tokens for record in each.records} == {each.cell.tokens}
    assert "".join(page(results)).count("recording.kvs") == 2
