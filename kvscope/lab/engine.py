"""One vLLM engine of the lab: its command line, its environment, its readiness."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kvscope.lab.ports import HOST
from kvscope.lab.process import Process

CONNECTORS = {"push": "NixlPushConnector", "pull": "NixlConnector"}
ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}
# Of ours they would reach the engines; PYTHONPATH is set afresh, the rest is the user's own affair.
NOT_PASSED_ON = ("PYTHONPATH", "PYTHONHOME", "VLLM_PLUGINS")


@dataclass(frozen=True)
class EngineOptions:
    """What an engine is started with."""

    python: Path
    model: Path
    run_dir: Path
    """Where its probe's rings go."""
    overlay: Path | None
    """kvscope for its PYTHONPATH; None: stock vLLM."""
    connector: str = "push"
    blocks: int | None = None
    """Size of the KV cache, in blocks; None: as many as 1 GiB holds."""
    block_size: int | None = None
    lease_s: int | None = None
    max_tokens: int = 8192
    max_requests: int = 32
    ucx_tls: str = "tcp,self,sm"
    extra_config: Mapping[str, object] = field(default_factory=dict)
    vllm_args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


class Engine:
    """A prefill or decode engine: three processes in one session."""

    def __init__(self, name: str, role: str, options: EngineOptions, ports: tuple[int, int], log: Path) -> None:
        self.name, self.role, self.ports = name, role, ports
        self.port, side_channel = ports
        self.url = f"http://{HOST}:{self.port}"
        env = environment(name, options, side_channel, os.environ)
        self.process = Process(name, command(role, self.port, options), log, env)

    def healthy(self) -> bool:
        """Whether it answers requests."""
        return answers(self.port, "/health")


def command(role: str, port: int, options: EngineOptions) -> list[str]:
    """The engine's command line."""
    words = [str(options.python), "-m", "vllm.entrypoints.openai.api_server"]
    words += ["--model", str(options.model), "--served-model-name", "lab", "--host", HOST, "--port", str(port)]
    words += ["--dtype", "float32", "--enforce-eager", "--no-enable-prefix-caching"]
    words += ["--max-model-len", str(options.max_tokens), "--max-num-seqs", str(options.max_requests)]
    if options.blocks is not None:
        words += ["--num-gpu-blocks-override", str(options.blocks)]
    if options.block_size is not None:
        words += ["--block-size", str(options.block_size)]
    return [*words, "--kv-transfer-config", json.dumps(transfer_config(role, options)), *options.vllm_args]


def transfer_config(role: str, options: EngineOptions) -> dict[str, object]:
    """The value of --kv-transfer-config."""
    extra = dict(options.extra_config)
    if options.lease_s is not None:
        extra["kv_lease_duration"] = options.lease_s
    told: dict[str, object] = {
        "kv_connector": CONNECTORS[options.connector],
        "kv_role": ROLES[role],
        "kv_buffer_device": "cpu",
        "kv_load_failure_policy": "fail",
    }
    return {**told, "kv_connector_extra_config": extra} if extra else told


def environment(name: str, options: EngineOptions, side_channel: int, ours: Mapping[str, str]) -> dict[str, str]:
    """The engine's environment variables, made from `ours`."""
    env = {key: value for key, value in ours.items() if key not in NOT_PASSED_ON}
    env |= {
        "VLLM_NIXL_SIDE_CHANNEL_HOST": HOST,
        "VLLM_NIXL_SIDE_CHANNEL_PORT": str(side_channel),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "UCX_TLS": options.ucx_tls,
        "PYTHONSAFEPATH": "1",  # else a source checkout that we run in comes before the overlay
        "KVSCOPE_ENGINE": name,
        "KVSCOPE_RUN_DIR": str(options.run_dir),
    }
    if options.overlay is not None:
        env["PYTHONPATH"] = str(options.overlay)
    return env | dict(options.env)


def answers(port: int, path: str) -> bool:
    """Whether a GET is answered with 200."""
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
