"""Making incidents: cases with equal engines share a pair, and each leaves a folder."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic_ns

from kvscope.lab import client
from kvscope.lab.case import AT_THE_END, FIRST, TRUTH, Blow, Case, Phase, Truth, truth_of, write_truth
from kvscope.lab.client import ClientRecord
from kvscope.lab.dispatch import Conduct
from kvscope.lab.engine import Engine
from kvscope.lab.front import RouterProcess
from kvscope.lab.load import LoadOptions, run_loads
from kvscope.lab.pair import Pair, PairOptions
from kvscope.lab.progress import Progress
from kvscope.lab.recording import passed, recording
from kvscope.lab.run import CLIENT
from kvscope.model.counting import count
from kvscope.model.errors import InputError

RECORDING = "recording.kvs"
WARM_UP = LoadOptions(requests=3, rate=1, arrivals="fixed", input_tokens=((300, 1.0),), output_tokens=4, warm_up=0)
"""Sent to a pair that is to know each other; not recorded."""


@dataclass(frozen=True)
class Made:
    """An incident that was made."""

    folder: Path
    recording: Path
    truth: Truth
    records: tuple[ClientRecord, ...]
    lost: int


@dataclass(frozen=True)
class MakeOptions:
    """How cases are made."""

    folder: Path
    """Each gets one of its own in there."""
    times: int = 1
    """So often, those that need engines which have never met, or that leave none alive, once."""
    python: Path | None = None
    """An interpreter that has vLLM; None: the lab's own."""


def make(cases: Sequence[Case], options: MakeOptions, progress: Progress, made: Callable[[Made], None]) -> None:
    """Make them; `made` is told of each. InputError: the folder holds earlier ones. LabError: no pair came up."""
    folder = options.folder
    if options.times < 1:
        raise InputError(f"--times {options.times}: choose 1 or more")
    for case in cases:
        if (folder / case.name).exists():
            raise InputError(f"{folder / case.name} is there already; name another folder")
    for number, (engines, group) in enumerate(grouped(cases)):
        with Pair(replace(engines, python=options.python), folder / f"pair-{number}", progress) as pair:
            progress.phase("start the router")
            scene = Scene(pair, pair.router(), progress)
            for case, name in _named(group, options.times):
                if case.turn != FIRST:
                    scene.warm_up()
                made(scene.play(case, folder / name))


def _named(group: Sequence[Case], times: int) -> Iterator[tuple[Case, str]]:
    """Each case as often as it can be made, and the name of its folder."""
    for case in group:
        for time in range(1 if case.turn in (FIRST, AT_THE_END) else times):
            yield case, case.name if time == 0 else f"{case.name}-{time + 1}"


def grouped(cases: Sequence[Case]) -> list[tuple[PairOptions, list[Case]]]:
    """Cases by the engines that they need, those that need fresh ones first, those that break them last."""
    found: list[tuple[PairOptions, list[Case]]] = []
    for case in cases:
        group = next((each for options, each in found if options == case.pair), None)
        if group is None:
            found.append((case.pair, group := []))
        group.append(case)
    return [(options, sorted(group, key=lambda case: case.turn)) for options, group in found]


class Scene:
    """A pair with its router, on which cases are played."""

    def __init__(self, pair: Pair, router: RouterProcess, progress: Progress) -> None:
        self._pair, self._router, self._progress, self._met = pair, router, progress, False

    def warm_up(self) -> None:
        """Let the engines meet, if they have not."""
        if self._met:
            return
        self._met = True
        self._progress.phase(f"warm up with {count(WARM_UP.requests, 'request')}")
        run_loads((WARM_UP,), self._router.url)

    def play(self, case: Case, folder: Path) -> Made:
        """Make a case into its folder."""
        folder.mkdir(parents=True)
        self._progress.phase(f"{case.name}: {case.done}")
        logs = {path: path.stat().st_size for path in self._pair.folder.glob("*.log")}
        path, records, phases = folder / RECORDING, list[ClientRecord](), list[tuple[int, int, bool]]()
        with recording(self._pair.run_dir, path, passed(self._pair.run_dir)) as tap:
            for phase in case.phases:
                begin = monotonic_ns()
                records += self._phase(case, phase)
                phases.append((begin, monotonic_ns(), phase.faulty))
            threading.Event().wait(case.settle_s)
        self._router.control(**vars(Conduct()))
        truth = truth_of(case, tuple(phases))
        client.write(folder / CLIENT, records)
        write_truth(folder / TRUTH, truth)
        for log, size in logs.items():
            (folder / log.name).write_bytes(log.read_bytes()[size:])
        return Made(folder, path, truth, tuple(records), tap.lost)

    def _phase(self, case: Case, phase: Phase) -> list[ClientRecord]:
        self._router.control(**{**vars(Conduct(case.dispatch)), **phase.conduct})
        self._progress.detail(", ".join(f"{each.requests} of {each.input_tokens[0][0]} tokens" for each in phase.loads))
        with struck(self._pair, phase.blows):
            return run_loads(phase.loads, self._router.url)


@contextmanager
def struck(pair: Pair, blows: Sequence[Blow]) -> Iterator[None]:
    """Signals at their times, while the block runs; what was stopped goes on after it."""
    engines = {engine.name: engine for engine in pair.engines}
    timers = [threading.Timer(blow.at_s, _strike, (engines[blow.engine], blow)) for blow in blows]
    try:
        for timer in timers:
            timer.start()
        yield
    finally:
        for timer in timers:
            timer.cancel()
            timer.join()
        for blow in blows:
            if blow.signal == "SIGSTOP":
                _strike(engines[blow.engine], replace(blow, signal="SIGCONT"))


def _strike(engine: Engine, blow: Blow) -> None:
    for pid in engine.process.members():
        try:
            title = Path(f"/proc/{pid}/cmdline").read_bytes()
            if blow.part.encode() in title:
                os.kill(pid, getattr(signal, blow.signal))
        except OSError:
            continue  # it has ended
