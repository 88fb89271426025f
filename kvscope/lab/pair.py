"""Prefill and decode engines that run together on this machine, from set-up to the last of their processes."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from kvscope.lab import affinity, environment, model, overlay
from kvscope.lab.client import ClientRecord
from kvscope.lab.engine import CONNECTORS, Engine, EngineOptions
from kvscope.lab.errors import LabError
from kvscope.lab.front import Front, RouterProcess, VllmRouter, vllm_router_program
from kvscope.lab.load import LoadOptions, run_load
from kvscope.lab.model import ModelSpec
from kvscope.lab.ports import Ports
from kvscope.lab.process import Process, Session, stop_all, stop_sessions
from kvscope.lab.progress import Progress, Silent
from kvscope.model.errors import InputError
from kvscope.model.invocation import command
from kvscope.probe import regular

STATE = "pair.json"
LOOK_S = 1.0  # engines take a minute to start, and what looks takes of the cores that they start on
SHM = Path("/dev/shm")
F = TypeVar("F", bound=Front)


@dataclass(frozen=True)
class PairOptions:
    """What is started."""

    connector: str = "push"
    prefills: int = 1
    decodes: int = 1
    stock: bool = False
    """vLLM without kvscope."""
    python: Path | None = None
    """An interpreter that has vLLM; None: the lab's own."""
    model: ModelSpec = field(default_factory=ModelSpec)
    blocks: int | None = None
    decode_blocks: int | None = None
    """For decode engines, in place of `blocks`."""
    block_size: int | None = None
    lease_s: int | None = None
    extra_config: Mapping[str, object] = field(default_factory=dict)
    """For kv_connector_extra_config."""
    vllm_args: tuple[str, ...] = ()
    ucx_tls: str = "tcp,self,sm"
    env: Mapping[str, str] = field(default_factory=dict)
    """For every engine."""
    place: bool = True
    """Give each engine cores of its own and calm its spinning thread."""
    start_timeout_s: float = 900.0


class Pair:
    """A context manager: inside it the engines run, after it nothing that it started does, however it ends.

    With `keep()` they outlive it, for `stop(folder)` to end later.
    """

    def __init__(self, options: PairOptions, folder: Path | None = None, progress: Progress | None = None) -> None:
        if options.connector not in CONNECTORS:
            raise InputError(f"the connector is push or pull, not {options.connector!r}")
        self.options = options
        self.progress: Progress = progress or Silent()
        self.folder = folder or Path(tempfile.mkdtemp(prefix="kvscope-lab-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        if (self.folder / STATE).exists():
            raise InputError(f"a pair is up in {self.folder}: `{command()} lab stop {self.folder}` ends it")
        self.run_dir = Path(tempfile.mkdtemp(prefix="kvscope-lab-", dir=SHM if os.access(SHM, os.W_OK) else None))
        self.engines: list[Engine] = []
        self._processes: list[Process] = []
        self._ports = Ports()
        self._kept = False

    @property
    def prefills(self) -> list[Engine]:
        """The prefill engines: p0, p1, …"""
        return [engine for engine in self.engines if engine.role == "prefill"]

    @property
    def decodes(self) -> list[Engine]:
        """The decode engines: d0, d1, …"""
        return [engine for engine in self.engines if engine.role == "decode"]

    def __enter__(self) -> Pair:
        with ExitStack() as undo:
            undo.callback(self._end)
            undo.callback(self.progress.drop)
            self._start()
            undo.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._kept and kind is None:
            return
        if kind is not None:
            self.progress.drop()
        try:
            self.progress.phase("stop the engines")
        finally:  # whatever became of the terminal: engines that nobody waits for would stay
            self._end()
        self.progress.finish()

    def keep(self) -> None:
        """Leave everything up on the way out, unless that is by an exception."""
        self._kept = True

    def router(self, dispatch: str = "sequential", hold_ms: float = 0.0) -> RouterProcess:
        """Start our router in front of the engines; it stops with the pair, or by its `process.stop()`."""
        front = RouterProcess(
            self.options.connector,
            [engine.url for engine in self.prefills],
            [engine.url for engine in self.decodes],
            self._log("router"),
            dispatch=dispatch,
            hold_ms=hold_ms,
            run_dir=self.run_dir,
        )
        return self._put_up(front)

    def vllm_router(self) -> VllmRouter:
        """Start PyPI's vllm-router in front of the engines. LabError: it cannot be had."""
        program = vllm_router_program(self.progress)
        urls = [engine.url for engine in self.prefills], [engine.url for engine in self.decodes]
        return self._put_up(VllmRouter(program, *urls, self._log("vllm-router")))

    def load(self, options: LoadOptions, url: str) -> list[ClientRecord]:
        """Send a load to `url` and wait for its end."""
        return run_load(options, url, self.progress)

    def _start(self) -> None:
        options = self.options
        python = environment.prepare(self.progress, options.python).python
        cache = environment.home()
        seen = None if options.stock else overlay.made(cache)
        self._make_engines(self._engine_options(python, model.made(options.model, cache), seen))
        self.progress.phase(f"start {len(self.engines)} vLLM engines (about 80 s on two cores)")
        for engine in self.engines:
            self._run(engine.process)
        self._wait_ready()
        if options.place:
            self.progress.phase("give each engine cores of its own")
            self._place()
        self.progress.finish()

    def _engine_options(self, python: Path, folder: Path, seen: Path | None) -> EngineOptions:
        options = self.options
        return EngineOptions(
            python=python,
            model=folder,
            run_dir=self.run_dir,
            overlay=seen,
            connector=options.connector,
            blocks=options.blocks,
            block_size=options.block_size,
            lease_s=options.lease_s,
            max_tokens=options.model.positions,
            ucx_tls=options.ucx_tls,
            extra_config=options.extra_config,
            vllm_args=options.vllm_args,
            env=options.env,
        )

    def _make_engines(self, shared: EngineOptions) -> None:
        options = self.options
        names = [(f"p{number}", "prefill") for number in range(options.prefills)]
        names += [(f"d{number}", "decode") for number in range(options.decodes)]
        ports = self._ports.take(2 * len(names))
        decode = replace(shared, blocks=options.decode_blocks or options.blocks)
        for (name, role), *both in zip(names, ports[::2], ports[1::2], strict=True):
            its = decode if role == "decode" else shared
            self.engines.append(Engine(name, role, its, (both[0], both[1]), self.folder / f"{name}.log"))

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + self.options.start_timeout_s
        for engine in self.engines:
            engine.process.wait_for(partial(self._ready, engine), deadline - time.monotonic(), LOOK_S)

    def _ready(self, engine: Engine) -> bool:
        for each in self.engines:
            each.process.check()
        if self.options.place:
            affinity.calm(affinity.tireless(self._members()))
        waiting = [each.name for each in self.engines if not each.healthy()]
        self.progress.detail(f"waiting for {', '.join(waiting)}")
        return engine.name not in waiting

    def _place(self) -> None:
        cores = affinity.shares(sorted(os.sched_getaffinity(0)), len(self.engines))
        for engine, share in zip(self.engines, cores, strict=True):
            affinity.pin(engine.process.members(), share)
        affinity.calm(affinity.spinning(self._members()))

    def _members(self) -> list[int]:
        return [pid for engine in self.engines for pid in engine.process.members()]

    def _log(self, name: str) -> Path:
        taken = sum(process.log.name.startswith(name) for process in self._processes)
        return self.folder / (f"{name}-{taken}.log" if taken else f"{name}.log")

    def _put_up(self, front: F) -> F:
        self._processes.append(front.process)
        front.start()
        self._save(front.url)
        return front

    def _run(self, process: Process) -> None:
        self._processes.append(process)
        process.start()
        self._save()

    def _save(self, url: str = "") -> None:
        sessions = [asdict(process.session) for process in self._processes if process.session]
        told = {"run_dir": str(self.run_dir), "url": url, "sessions": sessions}
        (self.folder / STATE).write_text(json.dumps(told, indent=1))

    def _end(self) -> None:
        try:
            stop_all(reversed(self._processes))
        finally:
            self._ports.close()
            shutil.rmtree(self.run_dir, ignore_errors=True)
            (self.folder / STATE).unlink(missing_ok=True)
            with suppress(OSError):
                self.folder.rmdir()  # nothing came of it


def stop(folder: Path) -> Sequence[str]:
    """End a pair that was kept, or that a killed command left behind; returns the names of what was ended.

    InputError: no pair is up in `folder`. LabError: something could not be ended.
    """
    state = folder / STATE
    try:
        run_dir, sessions = _told(json.loads(regular.read(state)))
    except FileNotFoundError:
        raise InputError(f"no pair is up in {folder}: it has no {STATE}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise LabError(f"{state} cannot be read: {error}") from error
    alive = [session.name for session in sessions if session.members()]
    stop_sessions(list(reversed(sessions)))
    shutil.rmtree(run_dir, ignore_errors=True)
    state.unlink()
    return alive


def _told(state: dict[str, Any]) -> tuple[str, list[Session]]:
    """Run directory and sessions, as `Pair` saved them. ValueError, KeyError, TypeError: it did not."""
    run_dir, sessions = state["run_dir"], [Session(**session) for session in state["sessions"]]
    kinds = {(type(each.name), type(each.pid), type(each.start_ticks)) for each in sessions}
    if not isinstance(run_dir, str) or not kinds <= {(str, int, int)}:
        raise ValueError("it does not hold what kvscope keeps there")
    return run_dir, sessions
