"""Texts that say nothing of anybody, by what they are: the words of engines and of kvscope itself, and versions."""

from __future__ import annotations

import re
import sys

from kvscope.probe.ids import MODES
from kvscope.probe.vocabulary import THREADS

WORDS: dict[str, frozenset[str]] = {
    "process": frozenset(("core", "worker", "router", "engine")),
    "applied": frozenset(("import", "disk", "import and disk", "by function", "off", "failed", "not loaded")),
    "connector": frozenset(
        (
            *("NixlConnector", "NixlPushConnector", "NixlPullConnector", "MultiConnector", "OffloadingConnector"),
            *("LMCacheConnectorV1", "LMCacheMPConnector", "MooncakeConnector", "MooncakeStoreConnector"),
            *("MoRIIOConnector", "HF3FSKVConnector", "FlexKVConnectorV1", "SimpleCPUOffloadConnector"),
            *("HiSparseConnector", "DecodeBenchConnector", "ExampleConnector", "P2pNcclConnector"),
        )
    ),
    "mode": frozenset(("push", "pull")),
    "role": frozenset(("kv_producer", "kv_consumer", "kv_both")),
    "placement": frozenset(("writer", "forward")),
    "backend": frozenset(
        (
            "UCX",
            "UCX_MO",
            "GDS",
            "GDS_MT",
            "POSIX",
            "LIBFABRIC",
            "Mooncake",
            "HF3FS",
            "OBJ",
            "GPUNETIO",
            "GUSLI",
            "UCCL",
        )
    ),
    "device": frozenset(("cpu", "cuda", "xpu", "hpu", "tpu", "rocm", "npu")),
    "policy": frozenset(("fail", "recompute")),
    "runner": frozenset(("v1", "v2")),
    "executor": frozenset(("mp", "ray", "uni", "external_launcher", "None")),
    "dispatch": frozenset(("early", "sequential")),
    "ids": frozenset(MODES),
    "thread": frozenset(THREADS),
    "shared": frozenset(("rounded",)),
    "dtype": frozenset(
        (
            *("bfloat16", "float16", "float32", "half", "float", "auto"),
            *("torch.bfloat16", "torch.float16", "torch.float32"),
        )
    ),
}

PACKAGES = frozenset(
    (
        *(
            "vllm",
            "nixl",
            "nixl_cu12",
            "nixl_cu13",
            "kvscope",
            "torch",
            "triton",
            "numpy",
            "transformers",
            "tokenizers",
        ),
        *(
            "zmq",
            "msgspec",
            "uvloop",
            "uvicorn",
            "starlette",
            "fastapi",
            "aiohttp",
            "prometheus_client",
            "ray",
            "pydantic",
        ),
        *("flashinfer", "xformers", "huggingface_hub", "safetensors", "opentelemetry", "psutil", "cloudpickle"),
    )
)
"""Packages whose functions are everybody's."""
_FRAME = re.compile(r"(?P<function>[^()]*) \((?P<file>[\w/.-]*)(?P<line>:\d+)?\)")

_TRANSPORTS = frozenset(
    (
        *("all", "self", "shm", "sm", "mm", "posix", "sysv", "xpmem", "cma", "knem", "tcp", "ib", "mlx5", "efa", "srd"),
        *("rc", "rc_x", "rc_v", "rc_mlx5", "rc_verbs", "dc", "dc_x", "dc_mlx5", "ud", "ud_x", "ud_v", "ud_mlx5"),
        *("cuda", "cuda_copy", "cuda_ipc", "gdr_copy", "rocm", "rocm_copy", "rocm_ipc", "ze_copy", "ze_ipc"),
    )
)
# A build's local part is kept where it says what it is for; any other can name who built it.
_VERSION = re.compile(
    r"(\d{1,4}(?:\.\d{1,8}){1,3}(?:(?:a|b|rc|\.dev|\.post)\d{1,8})*)(\+(?:cpu|cu\d{2,3}|rocm[\d.]{1,8}))?"
)
_SHAPES = {
    "digest": re.compile(r"[0-9a-f]{16}"),
    "tool": re.compile(r"py-spy \d{1,4}(?:\.\d{1,4}){1,3}"),
    "thread name": re.compile(
        r"MainThread|Thread-\d{1,4}|ThreadPoolExecutor-\d{1,4}_\d{1,4}|asyncio_\d{1,4}|nixl-push-writer|"
        r"vllm-nixl-handshake-initiator_\d{1,4}|nixl_handshake_listener"
    ),
}


def known(kind: str, text: str, fields: frozenset[str] = frozenset()) -> str | None:
    """What of a text is known, None if nothing is. `fields`: names of fields, for where those are listed."""
    if kind == "version":
        found = _VERSION.match(text)
        whole = found and (found.end() == len(text) or text[found.end()] == "+")
        return found[0] if found and whole else None
    if kind == "frame":
        return text if _is_frame(text) else None
    if kind == "transports":
        return text if all(word.lstrip("^") in _TRANSPORTS for word in text.split(",")) else None
    if kind in _SHAPES:
        return text if _SHAPES[kind].fullmatch(text) else None
    return text if text in (fields if kind == "field" else WORDS[kind]) else None


def _is_frame(text: str) -> bool:
    """Whether it is `function (file:line)`, the file one that everybody has."""
    found = _FRAME.fullmatch(text)
    if found is None or ".." in found["file"]:
        return False
    top = found["file"].partition("/")[0].removesuffix(".py")
    return top in PACKAGES or top in sys.stdlib_module_names
