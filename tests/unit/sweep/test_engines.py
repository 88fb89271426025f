"""Which engines a sweep starts, and what it says of the time that is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.lab.engine import EngineOptions, command, transfer_config
from kvscope.lab.pair import PairOptions
from kvscope.lab.sweeping.cell import PRODUCTION
from kvscope.lab.sweeping.drive import minutes, pair_options
from kvscope.lab.sweeping.plan import SweepOptions


def started(options: PairOptions) -> EngineOptions:
    return EngineOptions(
        Path("python"), Path("model"), Path("rings"), None, options.connector,
        extra_config=options.extra_config, vllm_args=options.vllm_args,
    )  # fmt: skip


@pytest.mark.parametrize("connector", ["push", "pull"])
def test_controlled_cells_have_a_plain_pair_without_caching(connector: str) -> None:
    options = pair_options(SweepOptions(), connector, None)
    assert (options.prefills, options.decodes, options.connector) == (1, 1, connector)
    words = command("prefill", 1, started(options))
    assert "--no-enable-prefix-caching" in words
    assert "--enable-prefix-caching" not in words


@pytest.mark.parametrize(("connector", "back"), [("push", False), ("pull", True)])
def test_production_cells_have_caches_two_decoders_and_pull_reads_back(connector: str, back: bool) -> None:
    options = pair_options(SweepOptions(shape=PRODUCTION), connector, None)
    assert options.decodes == 2
    words = command("prefill", 1, started(options))
    assert words.index("--enable-prefix-caching") > words.index("--no-enable-prefix-caching"), "the last word counts"
    extra = transfer_config("prefill", started(options)).get("kv_connector_extra_config", {})
    assert isinstance(extra, dict)
    assert bool(extra.get("bidirectional_kv_xfer")) is back, "vLLM's push refuses to start with it"


def test_time_left_is_told_in_minutes_or_not_at_all() -> None:
    assert minutes(400) == "about 7 min"
    assert minutes(3) == "about 1 min"
    assert minutes(0) == "how long is not known yet"
