"""What a router writes into the two legs of a request: pure functions of its body."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from kvscope.model.errors import InputError

Body = dict[str, Any]

# Names that an engine's answer gives for itself: enough to register with it, and true until it restarts.
COORDINATES = ("remote_engine_id", "remote_host", "remote_port", "tp_size", "pp_size", "dcp_size")
# Must be there; must not be the id of another request.
PLACEHOLDER = "not-known-yet"
# Of the client's wishes, those that do not go with a single token that nobody reads.
NOT_FOR_PREFILL = ("stream_options", "min_tokens", "max_completion_tokens", "n", "best_of")


@dataclass(frozen=True)
class Conduct:
    """How the router treats requests; changeable while it runs."""

    dispatch: str = "sequential"
    """`early`: both legs at once (push only). `sequential`: decode once prefill has answered."""
    hold_ms: float = 0.0
    """Waited between the legs."""
    drop: str | None = None
    """A fault: the leg, `prefill` or `decode`, that is never sent."""
    rename: str | None = None
    """A fault: added to the decode leg's request id, so that the legs no longer match."""
    strip: bool = False
    """A fault: decode is not told where the blocks are, and computes the prompt itself."""
    misname: str | None = None
    """A fault: the decode leg names this as prefill's request."""

    def changed(self, connector: str, wishes: Mapping[str, Any]) -> Conduct:
        """Itself with `wishes` applied. InputError: an unknown name, or a value that cannot be."""
        known = [each.name for each in fields(self)]
        if unknown := set(wishes) - set(known):
            raise InputError(f"a router has no {', '.join(sorted(unknown))}; it has {', '.join(known)}")
        return replace(self, **wishes).checked(connector)

    def checked(self, connector: str) -> Conduct:
        """Itself. InputError: it cannot be done with that connector."""
        if self.dispatch not in ("early", "sequential"):
            raise InputError(f"dispatch is early or sequential, not {self.dispatch!r}")
        if self.dispatch == "early" and connector == "pull":
            raise InputError("pull cannot be dispatched early: decode needs the blocks that prefill's answer names")
        if not isinstance(self.hold_ms, int | float) or not 0 <= self.hold_ms < math.inf:
            raise InputError(f"hold_ms is a number of milliseconds, not {self.hold_ms!r}")
        if self.drop not in (None, "prefill", "decode"):
            raise InputError(f"drop is prefill or decode, not {self.drop!r}")
        if not isinstance(self.strip, bool):
            raise InputError(f"strip is true or false, not {self.strip!r}")
        for name in ("rename", "misname"):
            if not isinstance(value := getattr(self, name), str | None):
                raise InputError(f"{name} is a text, not {value!r}")
        return self


def prefill_body(body: Body) -> Body:
    """The prefill leg: one token, not streamed, its KV to be handed over.

    A client that goes on where an answer ended may send what that answer told of decode's blocks: prefill reads them.
    """
    kept = {name: value for name, value in body.items() if name not in NOT_FOR_PREFILL}
    asked: Body = {"do_remote_decode": True, "do_remote_prefill": False}
    unknown = dict.fromkeys(("remote_engine_id", "remote_block_ids", "remote_host", "remote_port"))
    return {**kept, "max_tokens": 1, "stream": False, "kv_transfer_params": asked | unknown | _handed_back(body)}


def _handed_back(body: Body) -> Body:
    """What an earlier turn's answer told of the blocks that decode still holds; nothing, where it told nothing."""
    told = body.get("kv_transfer_params")
    return dict(told) if isinstance(told, dict) and told.get("do_remote_decode") is True else {}


def decode_body(body: Body, params: Body) -> Body:
    """The decode leg: what the client asked for, its KV to come from elsewhere."""
    return {**body, "kv_transfer_params": params}


def faulty_body(conduct: Conduct, leg: Body) -> Body:
    """A decode leg as a router with faults sends it."""
    if conduct.strip:
        return {name: value for name, value in leg.items() if name != "kv_transfer_params"}
    if conduct.misname is not None:
        return {**leg, "kv_transfer_params": {**leg["kv_transfer_params"], "remote_request_id": conduct.misname}}
    return leg


def returned_params(answer: bytes) -> Body:
    """The hand-over parameters in prefill's answer. InputError: it has none."""
    try:
        params = json.loads(answer).get("kv_transfer_params")
    except (ValueError, AttributeError):
        params = None
    if not params:
        raise InputError("the prefill engine's answer has no kv_transfer_params: is its KV connector configured?")
    return dict(params)


def sequential_params(connector: str, returned: Body) -> Body:
    """The decode leg's parameters once prefill has answered."""
    if connector == "pull":
        return returned
    return {**early_params(coordinates(returned)), "remote_request_id": returned["remote_request_id"]}


def early_params(known: Body) -> Body:
    """The decode leg's parameters before prefill has answered, from the engine's coordinates."""
    return {"do_remote_prefill": True, "do_remote_decode": False, "remote_request_id": PLACEHOLDER, **known}


def coordinates(returned: Body) -> Body:
    """What an answer tells of the engine that gave it."""
    return {name: returned[name] for name in COORDINATES if name in returned}
