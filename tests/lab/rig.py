"""Engines that differ from one another, and requests sent leg by leg, so that a test can break what it likes."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

from kvscope.core.critical_path import split
from kvscope.lab import dispatch
from kvscope.lab.engine import Engine, EngineOptions, transfer_config
from kvscope.lab.front import RouterProcess
from kvscope.lab.pair import Pair, PairOptions
from kvscope.lab.progress import Plain
from kvscope.model.events import Events
from kvscope.model.requests import RequestSplit
from kvscope.model.splits import Splits
from kvscope.sources.rings import read_rings

Body = dict[str, Any]
Change = Callable[[EngineOptions, str], EngineOptions]
"""What one engine is started with instead; it is told its role."""


class Rig(Pair):
    """A pair of which each engine may be changed by its name: p0, p1, …, d0, d1, …

    `mounts`: shell commands for some of them, done first, in a mount namespace of the engine's own.
    """

    def __init__(
        self,
        options: PairOptions,
        folder: Path,
        changes: Mapping[str, Change] | None = None,
        mounts: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(options, folder, Plain())
        self._changes, self._mounts = dict(changes or {}), dict(mounts or {})

    def _make_engines(self, shared: EngineOptions) -> None:
        super()._make_engines(shared)
        self.engines = [self._changed(engine, shared) for engine in self.engines]

    def _changed(self, engine: Engine, shared: EngineOptions) -> Engine:
        if change := self._changes.get(engine.name):
            engine = Engine(engine.name, engine.role, change(shared, engine.role), engine.ports, engine.process.log)
        if mount := self._mounts.get(engine.name):
            engine.process.command = [
                "unshare",
                "-m",
                "sh",
                "-ec",
                f'{mount}; exec "$@"',
                "sh",
                *engine.process.command,
            ]
        return engine

    def __getitem__(self, name: str) -> Engine:
        return next(engine for engine in self.engines if engine.name == name)

    def front(self, prefill: str, *decodes: str, way: str = "sequential") -> RouterProcess:
        """Our router in front of a prefill engine and some decode engines, which it takes in turn."""
        log = self._log(f"router-{prefill}-{'-'.join(decodes)}")
        urls = [self[prefill].url], [self[decode].url for decode in decodes]
        return self._put_up(RouterProcess(self.options.connector, *urls, log, dispatch=way, run_dir=self.run_dir))

    def splits(self) -> Splits:
        """What the whole pipeline says of all requests so far."""
        return split(read_rings(self.run_dir))

    def of(self, name: str) -> RequestSplit:
        """What it says of the one request sent under `name`."""
        splits = self.splits()
        (row,) = splits.find(name)
        return splits[row]

    def until(self, name: str, holds: Callable[[RequestSplit], bool], timeout_s: float = 60.0) -> RequestSplit:
        """Wait until the pipeline says what is wanted of a request; returns it."""
        deadline, pause = monotonic() + timeout_s, threading.Event()
        while True:
            splits = self.splits()
            found = [splits[row] for row in splits.find(name)]
            for each in found:
                if holds(each):
                    return each
            assert monotonic() < deadline, f"{name} after {timeout_s} s: {[told(each) for each in found]}"
            pause.wait(0.2)


def told(split: RequestSplit) -> dict[str, object]:
    """What is worth printing of a split that is not as expected."""
    names = "request shape state missing failure last_moment finish_reason marks exposed"
    return {name: getattr(split, name) for name in names.split()} | {"stamps": stamped(split)}


def stamped(split: RequestSplit) -> list[str]:
    """Its moments, in time order."""
    return [f"{stamp.leg} {stamp.moment}" for stamp in split.stamps]


def with_policy(policy: str) -> Change:
    """An engine with another kv_load_failure_policy: the command line's last word counts."""

    def change(options: EngineOptions, role: str) -> EngineOptions:
        config = transfer_config(role, options) | {"kv_load_failure_policy": policy}
        return replace(options, vllm_args=(*options.vllm_args, "--kv-transfer-config", json.dumps(config)))

    return change


def with_env(**env: str) -> Change:
    """An engine with further environment variables."""
    return lambda options, _role: replace(options, env={**options.env, **env})


class Leg:
    """One leg of a request, sent to an engine at once; its answer is awaited when it is asked for."""

    def __init__(self, engine: Engine, name: str, body: Body, timeout_s: float = 120.0, **headers: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=timeout_s)
        headers = {"Content-Type": "application/json", "X-Request-Id": name, **headers}
        self._connection.request("POST", "/v1/completions", json.dumps(body), headers)

    def answer(self) -> tuple[int, Body]:
        """Status and body."""
        try:
            response = self._connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            self._connection.close()

    def abandon(self) -> None:
        """Go away, as a client does that has had enough."""
        self._connection.close()


def asked(prompt: list[int], tokens: int = 4) -> Body:
    """A greedy completion of a prompt given as tokens."""
    told = {"max_tokens": tokens, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    return {"prompt": prompt, **told}


def prefilled(engine: Engine, name: str, prompt: list[int], **params: object) -> Body:
    """Send the prefill leg; returns the parameters that it answers with."""
    body = dispatch.prefill_body(asked(prompt))
    body["kv_transfer_params"] |= params
    status, answer = Leg(engine, name, body).answer()
    assert status == 200, answer
    return dict(answer["kv_transfer_params"])


def decoding(engine: Engine, name: str, prompt: list[int], params: Body, tokens: int = 4) -> Leg:
    """Send the decode leg."""
    return Leg(engine, name, dispatch.decode_body(asked(prompt, tokens), params))


def handed_over(rig: Rig, name: str, prompt: list[int], prefill: str = "p0", decode: str = "d0") -> Body:
    """Both legs one after the other; returns decode's answer."""
    returned = prefilled(rig[prefill], name, prompt)
    params = dispatch.sequential_params(rig.options.connector, returned)
    status, answer = decoding(rig[decode], name, prompt, params).answer()
    assert status == 200, answer
    return answer


def prompt(length: int, seed: int) -> list[int]:
    """Tokens, with no beginning in common with those of another seed."""
    return [(seed * 37 + place * (seed + 3)) % 256 for place in range(length)]


def kill(engine: Engine, what: str = "") -> list[int]:
    """SIGKILL the engine's processes whose title holds `what` (all of them: ""); returns their pids."""
    pids = [pid for pid in engine.process.members() if what in title(pid)]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return pids


def title(pid: int) -> str:
    """What a process calls itself; vLLM names its own: `VLLM::EngineCore`, `VLLM::Worker`."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()


def rows_of(events: Events, moment: int) -> Any:
    """The events of one moment."""
    return events.rows[events.rows["moment"] == moment]
