"""Engines without a KV connector: one that was given a name tells what it does, one without a name stays silent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvscope.lab.engine import Engine, EngineOptions
from kvscope.lab.pair import PairOptions
from kvscope.probe.vocabulary import MOMENTS
from kvscope.sources.rings import read_rings
from tests.lab.rig import Leg, Rig, asked, prompt, stamped, with_env

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


class PlainRig(Rig):
    """Engines that hand nothing over."""

    def _changed(self, engine: Engine, shared: EngineOptions) -> Engine:
        engine = super()._changed(engine, shared)
        at = engine.process.command.index("--kv-transfer-config")
        del engine.process.command[at : at + 2]
        return engine


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """p0 has a name, d0 none; both have served a request."""
    made = PlainRig(PairOptions(), tmp_path_factory.mktemp("plain"), {"d0": with_env(KVSCOPE_ENGINE="")})
    with made:
        for name in ("p0", "d0"):
            status, answer = Leg(made[name], f"by-{name}", asked(prompt(60, 1))).answer()
            assert status == 200, answer
        yield made


def test_by_its_name_its_requests_steps_and_load_are_told(rig: Rig) -> None:
    split = rig.until("by-p0", lambda split: split.complete)
    assert split.shape == "decode_only"
    assert stamped(split) == [
        f"decode {moment}"
        for moment in ("arrived", "taken", "queued", "scheduled", "first_token", "finished", "released")
    ]
    events = read_rings(rig.run_dir)
    assert {"started", "step", "load"} <= {MOMENTS[code] for code in events.rows["moment"]}
    assert lines(rig, "p0") == []


def test_without_one_it_has_no_rings_and_one_line_says_why(rig: Rig) -> None:
    (process,) = read_rings(rig.run_dir).processes
    assert (process.engine, process.started["process"]) == ("p0", "core")
    (said,) = lines(rig, "d0")
    assert "KVSCOPE_ENGINE" in said


def lines(rig: Rig, name: str) -> list[str]:
    """kvscope's lines in an engine's log."""
    return [line for line in rig[name].process.lines() if "kvscope: " in line]
