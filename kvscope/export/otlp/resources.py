"""What a process says of itself, as the resource whose spans they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from kvscope.model.events import Process

ATTRIBUTES: dict[str, tuple[str, Callable[[Process], object]]] = {
    "service.name": ("the engine's stable name", lambda process: process.engine),
    "service.instance.id": ("vLLM's engine id, new at each start", lambda process: process.engine_id),
    "service.version": ("vLLM's version", lambda process: process.started.get("vllm")),
    "host.name": ("where it runs", lambda process: process.started.get("node_name")),
    "host.id": ("whose clock its moments are on", lambda process: process.host),
    "k8s.pod.name": ("where it runs, if it was told", lambda process: process.started.get("pod")),
    "k8s.namespace.name": ("where it runs, if it was told", lambda process: process.started.get("namespace")),
    "k8s.node.name": ("where it runs, if it was told", lambda process: process.started.get("node")),
    "kvscope.connector": ("vLLM's KV connector", lambda process: process.started.get("connector")),
    "kvscope.mode": ("push or pull", lambda process: process.started.get("mode")),
    "kvscope.tp": ("tensor parallel size", lambda process: process.started.get("tp")),
    "kvscope.dp_rank": ("data parallel rank", lambda process: process.started.get("dp_rank")),
}
"""attribute -> (meaning, where it is from); what is not known is left out"""


WORD = 30
"""Characters of a text that may come again: longer ones are ids."""


def resource_of(process: Process) -> Resource:
    """An engine."""
    told = ((name, ask(process)) for name, (_, ask) in ATTRIBUTES.items())
    return Resource(attributes=[keyed(name, value) for name, value in told if value not in (None, "")])


def model_of(process: Process) -> str:
    """The model that an engine serves, or nothing."""
    given = process.started.get("model")
    return str(given[0] if isinstance(given, list) and given else given or "")


@cache
def scope() -> InstrumentationScope:
    """Who made the spans. Not to be changed: it is shared."""
    try:
        return InstrumentationScope(name="kvscope", version=version("kvscope"))
    except PackageNotFoundError:  # run from a folder that was not installed
        return InstrumentationScope(name="kvscope")


def keyed(name: str, value: object) -> KeyValue:
    """An attribute: text, integer, float, truth, or a list of texts. Not to be changed: words are shared."""
    if isinstance(value, bool):
        return KeyValue(key=name, value=AnyValue(bool_value=value))
    if isinstance(value, int):
        return KeyValue(key=name, value=AnyValue(int_value=value))
    if isinstance(value, float):
        return KeyValue(key=name, value=AnyValue(double_value=value))
    if isinstance(value, (list, tuple)):
        attribute = KeyValue(key=name)
        attribute.value.array_value.values.extend(AnyValue(string_value=utf8(each)) for each in value)
        return attribute
    return _worded(name, str(value)) if len(str(value)) < WORD else _text(name, str(value))


def _text(name: str, value: str) -> KeyValue:
    return KeyValue(key=name, value=AnyValue(string_value=utf8(value)))


_worded = lru_cache(4096)(_text)


def utf8(value: object) -> str:
    """A text that can be sent: what is no character is shown as one."""
    return str(value).encode("utf-8", "replace").decode()
