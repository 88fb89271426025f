"""What stands in front of the engines: our router in a process of its own, or PyPI's vllm-router."""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from kvscope.lab import environment
from kvscope.lab.engine import answers
from kvscope.lab.errors import LabError
from kvscope.lab.ports import HOST, free_ports
from kvscope.lab.process import Process
from kvscope.lab.progress import Progress
from kvscope.lab.router import READY
from kvscope.model.errors import InputError

VLLM_ROUTER = "vllm-router==0.1.17"
ROUTER_BYTES = 300 << 20
READY_S = 30.0


class Front(Protocol):
    """Something that takes requests for the pair."""

    process: Process
    url: str

    def start(self) -> None:
        """Start it and wait until it takes requests."""


class RouterProcess:
    """Our router. `control` changes its conduct while it runs."""

    def __init__(
        self,
        connector: str,
        prefills: Sequence[str],
        decodes: Sequence[str],
        log: Path,
        *,
        dispatch: str = "sequential",
        hold_ms: float = 0.0,
        run_dir: Path | None = None,
    ) -> None:
        command = [sys.executable, "-m", "kvscope.lab.router", "--connector", connector]
        for url in prefills:
            command += ["--prefill", url]
        for url in decodes:
            command += ["--decode", url]
        command += ["--dispatch", dispatch, "--hold", str(hold_ms)]
        env = dict(os.environ) | {"KVSCOPE_ENGINE": "router"}
        if run_dir is not None:
            env["KVSCOPE_RUN_DIR"] = str(run_dir)
        self.process = Process("the router", command, log, env)
        self.url = ""

    def start(self) -> None:
        """Start it and learn its address. LabError: it did not come up."""
        self.process.start()
        self.process.wait_for(lambda: any(line.startswith(READY) for line in self.process.lines()), READY_S)
        told = next(line for line in self.process.lines() if line.startswith(READY))
        self.url = told.removeprefix(READY).strip()

    def control(self, **wishes: object) -> dict[str, Any]:
        """Change what `dispatch.Conduct` has; returns its whole conduct. InputError: it refuses."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=10)
        try:
            connection.request("POST", "/control", json.dumps(wishes), {"Content-Type": "application/json"})
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if "error" in answer:
            raise InputError(answer["error"])
        return answer


class VllmRouter:
    """PyPI's vllm-router. It decides for itself how to dispatch, and reports no moments."""

    def __init__(self, program: Path, prefills: Sequence[str], decodes: Sequence[str], log: Path) -> None:
        port, self._prometheus = free_ports(2)
        self._port = port
        command = [str(program), "--vllm-pd-disaggregation", "--kv-connector", "nixl", "--host", HOST]
        command += ["--port", str(port), "--prometheus-port", str(self._prometheus)]
        for url in prefills:
            command += ["--prefill", url]
        for url in decodes:
            command += ["--decode", url]
        self.process = Process("vllm-router", command, log)
        self.url = f"http://{HOST}:{port}"

    def start(self) -> None:
        """Start it and wait until it answers. LabError: it did not come up."""
        self.process.start()
        self.process.wait_for(lambda: answers(self._port, "/health"), READY_S)


def vllm_router_program(progress: Progress) -> Path:
    """The program, installed into an environment of its own if need be. LabError: it cannot be had."""
    folder = environment.home() / VLLM_ROUTER.replace("==", "-")
    try:
        with environment.locked(folder):
            if not (folder / "ready.json").exists():
                environment.make(folder, (VLLM_ROUTER,), (), ROUTER_BYTES, progress)
    except LabError as error:
        raise LabError(f"{VLLM_ROUTER} cannot be had; without --router kvscope's own is used: {error}") from error
    return folder / "bin" / "vllm-router"
