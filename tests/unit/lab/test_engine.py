"""An engine's command line and environment."""

from __future__ import annotations

import json
from pathlib import Path

from kvscope.lab.engine import EngineOptions, command, environment, transfer_config

OPTIONS = EngineOptions(Path("/venv/bin/python"), Path("/model"), Path("/rings"), Path("/overlay"))
STOCK = EngineOptions(Path("/venv/bin/python"), Path("/model"), Path("/rings"), None)


def test_stock_engines_see_nothing_of_kvscope_s_and_others_only_through_the_overlay() -> None:
    ours = {"PYTHONPATH": "/somewhere", "VLLM_PLUGINS": "other", "PATH": "/bin"}
    stock = environment("p0", STOCK, 5600, ours)
    assert "PYTHONPATH" not in stock
    assert "VLLM_PLUGINS" not in stock
    assert stock["PATH"] == "/bin"
    assert environment("p0", OPTIONS, 5600, ours)["PYTHONPATH"] == "/overlay"


def test_an_engine_knows_its_name_its_rings_and_its_side_channel() -> None:
    env = environment("d1", OPTIONS, 5700, {})
    assert (env["KVSCOPE_ENGINE"], env["KVSCOPE_RUN_DIR"]) == ("d1", "/rings")
    assert env["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "5700"


def test_roles_and_connectors_reach_the_transfer_configuration() -> None:
    words = command("decode", 8200, OPTIONS)
    told = json.loads(words[words.index("--kv-transfer-config") + 1])
    assert (told["kv_connector"], told["kv_role"]) == ("NixlPushConnector", "kv_consumer")
    assert "kv_connector_extra_config" not in told


def test_lease_and_extra_configuration_go_to_the_connector() -> None:
    options = EngineOptions(
        Path("p"), Path("m"), Path("r"), None, connector="pull", lease_s=5, extra_config={"num_threads": 1}
    )
    told = transfer_config("prefill", options)
    assert told["kv_connector"] == "NixlConnector"
    assert told["kv_connector_extra_config"] == {"kv_lease_duration": 5, "num_threads": 1}
