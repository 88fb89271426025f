"""Where spans are carried: to a collector, or into a file of OTLP JSON lines."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from kvscope.export.making import Making, check_free
from kvscope.export.otlp.delivery import Delivery
from kvscope.export.otlp.endpoint import Endpoint
from kvscope.model.counting import count

_IDS = ("traceId", "spanId", "parentSpanId")


class ToCollector:
    """By HTTP."""

    def __init__(self, endpoint: Endpoint, told: Callable[[str], None]) -> None:
        """`told` hears that it is waited for."""
        self._delivery = Delivery(endpoint, told)
        self.name = f"sent to {endpoint.url}"

    @property
    def rejected(self) -> int:
        """As `Carrier` has it."""
        return self._delivery.rejected

    def carry(self, message: ExportTraceServiceRequest) -> None:
        """As `Carrier` has it."""
        self._delivery.send(message.SerializeToString())

    def finish(self) -> str:
        """As `Carrier` has it."""
        self.abandon()
        delivery = self._delivery
        if not delivery.rejected:
            return f"it says: {delivery.objection}" if delivery.objection else ""
        said = f": {delivery.objection}" if delivery.objection else ""
        return f"it threw {count(delivery.rejected, 'span')} away{said}"

    def abandon(self) -> None:
        """As `Carrier` has it."""
        self._delivery.close()


class ToFile:
    """A line per batch, as collectors' file exporters write and their file receivers read."""

    rejected = 0

    def __init__(self, path: Path, force: bool) -> None:
        """InputError: it is there (and not `force`), or cannot be written."""
        check_free(path, force)
        self._making = Making(path)
        self.name = f"written to {path}"

    def carry(self, message: ExportTraceServiceRequest) -> None:
        """As `Carrier` has it."""
        self._making.write((json.dumps(as_json(message), ensure_ascii=False) + "\n").encode())

    def finish(self) -> str:
        """As `Carrier` has it."""
        self._making.settle()
        self._making.place()
        return ""

    def abandon(self) -> None:
        """As `Carrier` has it."""
        self._making.abandon()


def as_json(message: ExportTraceServiceRequest) -> dict[str, Any]:
    """OTLP's own JSON: Protobuf's, but that ids are in hex and enumerations are numbers."""
    told: dict[str, Any] = MessageToDict(message, use_integers_for_enums=True)
    for resource in told.get("resourceSpans", ()):
        for scope in resource.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                for item in (span, *span.get("links", ())):
                    item.update({name: base64.b64decode(item[name]).hex() for name in _IDS if name in item})
    return told
