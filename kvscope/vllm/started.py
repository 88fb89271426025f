"""What an engine is, told once at its start: all that a later comparison needs to know."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from kvscope.probe import recorder
from kvscope.probe.recorder import record
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE
from kvscope.vllm import scheduler_side, status, worker_side
from kvscope.vllm.guard import tracepoint

NAME = "KVSCOPE_ENGINE"
PLACEMENT = {"push": "writer", "pull": "forward"}
POD = {"pod": "POD_NAME", "namespace": "POD_NAMESPACE", "node": "NODE_NAME"}


def _told(question: Callable[[], Any]) -> Any:
    """An answer, or None: a release that keeps one setting elsewhere must not cost the others."""
    try:
        answer = question()
    except Exception:  # noqa: BLE001 - any shape of the engine's configuration is possible here
        return None
    return answer if isinstance(answer, (int, float, bool, str, list, type(None))) else str(answer)


def engine_name(config: Any) -> str:
    """The stable name of this engine: given, or host:port of its side channel."""
    given = os.environ.get(NAME)
    if given:
        rank = config.parallel_config.data_parallel_index
        return f"{given}-dp{rank}" if rank else given
    import vllm.envs as envs

    port = envs.VLLM_NIXL_SIDE_CHANNEL_PORT + config.parallel_config.data_parallel_index
    return f"{envs.VLLM_NIXL_SIDE_CHANNEL_HOST}:{port}"


def _version(*names: str) -> str | None:
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def _vllm_version() -> str:
    import vllm.version

    return str(vllm.version.__version__)


def _names_in(folder: str) -> list[str]:
    path = Path(folder)
    return sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []


def _gpu() -> str | None:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def describe(connector: Any, config: Any, engine_id: str | None, kv_cache: Any) -> dict[str, Any]:
    """Versions, connector (None: none of ours), model, limits, sizes, place."""
    transfer, model, cache = (
        config.kv_transfer_config,
        config.model_config,
        config.cache_config,
    )
    batch, parallel = config.scheduler_config, config.parallel_config
    questions: dict[str, Callable[[], Any]] = {
        "engine": lambda: engine_name(config),
        "engine_id": lambda: engine_id,
        "vllm": _vllm_version,
        "nixl": lambda: _version("nixl", "nixl-cu12", "nixl-cu13"),
        "torch": lambda: _version("torch"),
        "python": platform.python_version,
        "release": lambda: status.release,
        "patches": lambda: status.patch_hash,
        "applied": lambda: "disk" if status.how == "not loaded" else status.how,
        "missing_functions": lambda: list(status.missing),
        "connector": lambda: transfer.kv_connector,
        "mode": lambda: connector._TRANSFER_MODE,
        "role": lambda: transfer.kv_role,
        "placement": lambda: PLACEMENT[connector._TRANSFER_MODE],
        "backends": lambda: list(transfer.get_from_extra_config("backends", ["UCX"])),
        "num_threads": lambda: transfer.get_from_extra_config("num_threads", 4),
        "ucx_tls": lambda: os.environ.get("UCX_TLS"),
        "bidirectional": lambda: bool(transfer.get_from_extra_config("bidirectional_kv_xfer", False)),
        "lease_s": lambda: transfer.get_from_extra_config("kv_lease_duration", 30),
        "kv_buffer_device": lambda: transfer.kv_buffer_device,
        "load_failure_policy": lambda: transfer.kv_load_failure_policy,
        "model": lambda: model.served_model_name or model.model,
        "dtype": lambda: str(model.dtype),
        "max_model_len": lambda: model.max_model_len,
        "block_size": lambda: cache.block_size,
        "kv_blocks": lambda: kv_cache.num_blocks,
        "prefix_caching": lambda: bool(cache.enable_prefix_caching),
        "max_num_batched_tokens": lambda: batch.max_num_batched_tokens,
        "max_num_seqs": lambda: batch.max_num_seqs,
        "async_scheduling": lambda: bool(batch.async_scheduling),
        "runner": lambda: "v2" if config.use_v2_model_runner else "v1",
        "executor": lambda: str(parallel.distributed_executor_backend),
        "tp": lambda: parallel.tensor_parallel_size,
        "pp": lambda: parallel.pipeline_parallel_size,
        "dp": lambda: parallel.data_parallel_size,
        "dp_rank": lambda: parallel.data_parallel_index,
        "node_name": platform.node,
        "gpu": _gpu,
        "nics": lambda: _names_in("/sys/class/infiniband"),
    }
    answers = {name: _told(question) for name, question in questions.items()}
    answers.update({name: os.environ.get(variable) for name, variable in POD.items()})
    return {name: answer for name, answer in answers.items() if answer is not None}


def _start(process: str, connector: Any, config: Any, engine_id: str | None, kv_cache: Any, rank: int) -> None:
    recorder.describe(
        {
            "process": process,
            "rank": rank,
            **describe(connector, config, engine_id, kv_cache),
        }
    )
    record(MOMENT_CODE["started"], LEG_CODE["engine"], None, rank=rank)


@tracepoint
def scheduler_started(connector: Any, config: Any, engine_id: Any, kv_cache: Any) -> None:
    """EngineCore has its connector."""
    scheduler_side.state().named = True
    recorder.set_main_role("core")
    _start("core", connector, config, engine_id, kv_cache, 0)


@tracepoint
def worker_started(connector: Any, config: Any, engine_id: Any, kv_cache: Any) -> None:
    """A Worker has its connector."""
    worker_side.state().named = True
    recorder.set_main_role("worker")
    worker_side.observe_transfers(connector)
    _start("worker", connector, config, engine_id, kv_cache, connector.tp_rank)


@tracepoint
def scheduler_made(scheduler: Any) -> None:
    """EngineCore has its scheduler. Without a NIXL connector it has no name but one that it is given, and without
    that nothing of it is recorded: nobody could tell whose it is."""
    if scheduler_side.state().named:
        return
    config = scheduler.vllm_config
    transfer = config.kv_transfer_config
    ours = "Nixl" in str(transfer)  # alone or among others; where its patch could not be applied, it has not told
    if not (ours or os.environ.get(NAME)):
        recorder.silence()
        print(f"kvscope: no NIXL connector: nothing is recorded unless {NAME} names it", file=sys.stderr, flush=True)
        return
    scheduler_side.state().named = True
    recorder.set_main_role("core")
    _start("core", None, config, getattr(transfer, "engine_id", None), scheduler.kv_cache_config, 0)
