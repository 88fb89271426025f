"""What served the requests: the versions and settings that have to stand beside every number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kvscope.model.events import Process

SHOWN: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("versions", ("vllm", "nixl", "torch", "patches")),
    ("connector", ("connector", "mode", "placement", "backends", "num_threads", "ucx_tls", "bidirectional")),
    ("model", ("model", "dtype", "block_size", "kv_blocks", "prefix_caching")),
    ("batch", ("max_num_batched_tokens", "max_num_seqs", "async_scheduling", "runner", "executor")),
    ("sizes", ("tp", "pp", "dp", "gpu", "nics")),
)
"""Facts of an engine that a comparison needs, by line of the header."""

BRIEF = ("vllm", "nixl", "connector", "mode", "placement", "model", "block_size", "kv_blocks", "prefix_caching")
"""What must be seen at a glance; the rest stands at the report's end."""
COMPARED = tuple(name for _, names in SHOWN for name in names)


@dataclass(frozen=True)
class Fact:
    """One setting, and who has which value."""

    name: str
    values: tuple[tuple[str, tuple[str, ...]], ...]
    """(value as text, engines that told it), most engines first"""

    @property
    def differs(self) -> bool:
        """Whether engines do not agree."""
        return len(self.values) > 1


@dataclass(frozen=True)
class Setup:
    """What the processes told at their start."""

    facts: dict[str, Fact]
    """by name; settings that nobody told are absent"""
    routers: tuple[dict[str, Any], ...]
    engines: tuple[str, ...]
    """Engines that told."""
    silent: tuple[str, ...]
    """Engines that recorded and never told what they are."""
    hosts: tuple[str, ...]
    """Where the clocks run: a host for each boot."""

    @property
    def differences(self) -> tuple[Fact, ...]:
        """Settings on which engines do not agree."""
        return tuple(fact for fact in self.facts.values() if fact.differs)


def gather_setup(processes: Iterable[Process]) -> Setup:
    """Collect what was told; every engine counts once however many processes it has."""
    engines: dict[str, dict[str, Any]] = {}
    routers: list[dict[str, Any]] = []
    silent: set[str] = set()
    hosts: set[str] = set()
    for process in processes:
        hosts.add(process.host)
        if is_router(process):
            routers += [process.started] if process.started and process.started not in routers else []
        elif process.started:
            engines.setdefault(label_of(process), {}).update(process.started)
        else:
            silent.add(label_of(process))
    return Setup(
        facts={name: fact for name in COMPARED if (fact := _fact(name, engines)) is not None},
        routers=tuple(routers),
        engines=tuple(engines),
        silent=tuple(sorted(silent - set(engines))),
        hosts=tuple(sorted(hosts - {""})),
    )


def is_router(process: Process) -> bool:
    """Whether the process is a router's, and no engine's."""
    return "dispatch" in process.started or process.started.get("process") == "router" or process.engine == "router"


def label_of(process: Process) -> str:
    """What to call the engine of a process."""
    return process.engine or process.engine_id or f"pid {process.pid}"


def _fact(name: str, engines: dict[str, dict[str, Any]]) -> Fact | None:
    holders: dict[str, list[str]] = {}
    for engine, told in engines.items():
        if name in told:
            holders.setdefault(_text(told[name]), []).append(engine)
    if not holders:
        return None
    ranked = sorted(holders.items(), key=lambda item: -len(item[1]))
    return Fact(name, tuple((value, tuple(who)) for value, who in ranked))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return "+".join(map(str, value)) or "none"
    return str(value)
