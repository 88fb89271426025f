"""Engines switched on and off in turn, and what vLLM's own histograms say came of each stretch."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from kvscope.model.errors import InputError
from kvscope.probe import control
from kvscope.probe.control import Changed
from kvscope.probe.reader import RingError, RingFile, list_rings
from kvscope.sources.vllm_metrics import Histogram, Page, scraped

LOOK_S = 0.5
"""Between two looks for traffic."""


@dataclass(frozen=True)
class Alternation:
    """How a run alternates."""

    urls: tuple[str, ...]
    """Metrics pages, one an engine."""
    rounds: int = 20
    span_s: float = 30.0
    """Of a block; a round has two."""
    settle_s: float = 3.0
    """After a switch and before its block, for requests that began under the other condition."""
    seed: int = 0

    @property
    def seconds(self) -> float:
        """What it takes in all."""
        return self.rounds * 2 * (self.span_s + self.settle_s)


@dataclass(frozen=True)
class RoundSeen:
    """What came to the histograms of each page, in the order of `urls`, while recording was on and while off."""

    on: tuple[Page, ...]
    off: tuple[Page, ...]


class Switch:
    """Recording in the living processes of an engine (None: of all), left as it was found.

    A context manager; a process that starts meanwhile is switched with the others from the next time on.
    InputError: there is none, one may not be switched, or one switched itself off and should be looked at first.
    """

    def __init__(self, run_dir: Path, engine: str | None = None) -> None:
        self._run_dir, self._engine = run_dir, engine
        self._found: dict[Path, Changed] = {}

    def __enter__(self) -> Switch:
        rings = list(self._living())
        if not rings:
            raise self._nobody()
        for ring in rings:
            if ring.header.self_off:
                raise InputError(
                    f"the probe of {ring.engine or ring.path.name} switched itself off after {ring.header.self_off};"
                    " `kvscope doctor` says more, `kvscope on` has it record again"
                )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            control.restore(self._found.values())
        except RingError as trouble:
            raise InputError(str(trouble)) from None

    def set(self, on: bool) -> None:
        """Switch them all."""
        faults: list[RingError] = []
        try:
            changed = control.switch(self._run_dir, self._engine, on, faults)
        except RingError as error:
            raise InputError(str(error)) from None
        for each in changed:
            self._found.setdefault(each.path, each)
        if refused := [str(fault) for fault in faults if isinstance(fault, control.Refused)]:
            raise InputError("; ".join(refused))
        if not changed:
            raise self._nobody()

    def _nobody(self) -> InputError:
        whom = f"no engine called {self._engine}" if self._engine else "no engine"
        return InputError(f"{whom} records in {self._run_dir}; `kvscope doctor` says why, --run-dir names another")

    def _living(self) -> Iterator[RingFile]:
        try:
            rings = list_rings(self._run_dir, [])
        except RingError as error:
            raise InputError(str(error)) from None
        return (ring for ring in rings if ring.alive and self._engine in (None, ring.engine, str(ring.header.pid)))


def await_traffic(urls: Sequence[str], limit_s: float, stop: threading.Event) -> None:
    """Wait until every page has counted a first token, or `stop`. InputError: not within `limit_s`, or no vLLM."""
    before = {url: scraped(url)["ttft"].count for url in urls}
    waited = 0.0
    while before and not stop.wait(LOOK_S):
        if waited >= limit_s:
            raise InputError(
                f"no request got its first token at {next(iter(before))} within {waited:g} s;"
                " what recording costs can be seen only under traffic"
            )
        waited += LOOK_S
        before = {url: count for url, count in before.items() if scraped(url)["ttft"].count == count}


def alternate(
    plan: Alternation, switch: Switch, stop: threading.Event, told: Callable[[RoundSeen], None]
) -> Iterator[RoundSeen]:
    """Run round after round until all are done, or `stop` is set: then the round that was begun is left out."""
    for on_first in orders(plan.rounds, plan.seed):
        found: dict[bool, tuple[Page, ...]] = {}
        for on in (on_first, not on_first):
            switch.set(on)
            if stop.wait(plan.settle_s):
                return
            before = _pages(plan)
            if stop.wait(plan.span_s):
                return
            found[on] = tuple(gained(*pages) for pages in zip(before, _pages(plan), strict=True))
        seen = RoundSeen(found[True], found[False])
        told(seen)
        yield seen


def orders(rounds: int, seed: int) -> list[bool]:
    """Whether each round begins with recording on: by chance, and half of them, so that no trend favours either."""
    chance = random.Random(seed)
    drawn = [bool(number % 2) for number in range(rounds)]
    chance.shuffle(drawn)
    return drawn


def gained(before: Page, after: Page) -> Page:
    """What came to each histogram; nothing where the engine started anew in between."""
    deltas = {name: after[name] - before.get(name, Histogram()) for name in after}
    return {name: delta if delta.count >= 0 else Histogram() for name, delta in deltas.items()}


def _pages(plan: Alternation) -> tuple[Page, ...]:
    return tuple(scraped(url) for url in plan.urls)
