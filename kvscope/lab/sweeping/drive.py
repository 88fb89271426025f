"""Measuring the cells that are not done yet: engines of our own or of somebody else's, one cell after the other."""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from kvscope.lab import client, pair
from kvscope.lab.client import ClientRecord
from kvscope.lab.errors import LabError
from kvscope.lab.front import RouterProcess
from kvscope.lab.load import beside, send, warm_up
from kvscope.lab.pair import Pair, PairOptions
from kvscope.lab.progress import Progress
from kvscope.lab.recording import passed, recording
from kvscope.lab.sweeping.cell import MIXED, PRODUCTION, Cell
from kvscope.lab.sweeping.folder import CLIENT, RECORDING, Capacity, Kept
from kvscope.lab.sweeping.loads import Wording, burst, letters_per_token, sent, shown_rate, warming
from kvscope.lab.sweeping.plan import SweepOptions, by_connector, cells, mode_of, rate_of, seconds_left
from kvscope.model.counting import count

BETWEEN_S = 0.5
"""After a warm-up, so that its last moments are over before a cell is recorded."""
BLOCKS_TTL_S = 60
"""How long decode keeps the blocks of an answer for a next turn."""


class Bench(Protocol):
    """What takes a cell's requests."""

    @property
    def url(self) -> str:
        """Where requests go."""

    @property
    def run_dir(self) -> Path | None:
        """Where its rings are, if they are here."""

    def aim(self, cell: Cell) -> None:
        """Make it hand over as the cell wants."""

    def check(self) -> None:
        """LabError: it has ended."""


@dataclass
class OwnBench:
    """A pair of ours and its router."""

    pair: Pair
    router: RouterProcess

    @property
    def url(self) -> str:
        return self.router.url

    @property
    def run_dir(self) -> Path | None:
        return self.pair.run_dir

    def aim(self, cell: Cell) -> None:
        self.router.control(dispatch=mode_of(cell).dispatch, hold_ms=0.0)

    def check(self) -> None:
        for engine in self.pair.engines:
            engine.process.check()


@dataclass
class TargetBench:
    """Somebody else's."""

    url: str
    run_dir: Path | None

    def aim(self, cell: Cell) -> None:
        """Nothing: it is what it is."""

    def check(self) -> None:
        """Nothing: its answers tell."""


@dataclass
class Sweep:
    """A sweep under way."""

    kept: Kept
    progress: Progress
    measured: Callable[[Cell], None]
    """Told of each cell that is done."""
    python: Path | None = None
    salt: str = field(default_factory=lambda: secrets.token_hex(3))

    @property
    def options(self) -> SweepOptions:
        return self.kept.options

    @property
    def left(self) -> list[Cell]:
        """Cells that are not done."""
        return [cell for cell in cells(self.options) if not self.kept.done(cell)]

    def run(self, run_dir: Path | None = None) -> None:
        """Measure them. run_dir: of a target's rings. LabError: engines did not come up, or ended."""
        if self.options.target:
            self._measure(TargetBench(self.options.target, run_dir), self.left)
            return
        for connector, group in by_connector(self.left):
            folder = self.kept.folder / f"pair-{connector}"
            if (folder / pair.STATE).exists():
                pair.stop(folder)  # what a killed sweep left: nobody else writes here
            with Pair(pair_options(self.options, connector, self.python), folder, self.progress) as engines:
                self.progress.phase("start the router")
                self._measure(OwnBench(engines, engines.router()), group)

    def _measure(self, bench: Bench, group: Sequence[Cell]) -> None:
        if not group:
            return
        self._capacity(bench, group)
        for cell in group:
            bench.check()
            self._cell(bench, cell)

    def _capacity(self, bench: Bench, group: Sequence[Cell]) -> None:
        """Measure it for every length that has none yet, under the first cell's mode; where no rate is a share of it,
        only how the target counts tokens."""
        bench.aim(group[0])
        lengths = dict.fromkeys(cell.tokens for cell in cells(self.options))
        for tokens in lengths:
            if tokens in self.kept.capacity:
                continue
            what = "mixed lengths" if tokens == MIXED else f"{tokens:,} tokens"
            self.progress.phase(f"{'warm up with' if self.options.rates else 'measure the capacity for'} {what}")
            words = self._calibrated(bench, tokens)
            if self.options.rates:
                self.kept.learn({tokens: Capacity(0.0, 0, group[0].mode, words.letters)})
                continue
            records = beside([send(burst(tokens, self.options, words), bench.url)])
            if not (rate := shown_rate(records)):
                raise LabError(f"{bench.url} answered none of {count(len(records), 'request')}: {_why(records)}")
            found = Capacity(rate, sum(record.ok for record in records), group[0].mode, words.letters)
            self.kept.learn({tokens: found})

    def _calibrated(self, bench: Bench, tokens: int) -> Wording:
        """Warm up, and learn how many letters the model's tokenizer makes a token of."""
        records = asyncio.run(warm_up(warming(tokens, self.options, Wording(self.salt)), bench.url))
        if not any(record.ok for record in records):
            raise LabError(f"{bench.url} does not answer completions: {_why(records)}")
        return Wording(self.salt, letters_per_token(records))

    def _cell(self, bench: Bench, cell: Cell) -> None:
        capacity = {tokens: each.rate for tokens, each in self.kept.capacity.items()}
        rate = rate_of(cell, capacity)
        words = Wording(self.salt, self.kept.capacity[cell.tokens].letters)
        load = sent(cell, self.options, rate, words)
        self.progress.phase(self._title(cell, rate, capacity))
        folder = self.kept.begin(cell)
        bench.aim(cell)
        asyncio.run(warm_up(warming(cell.tokens, self.options, words), bench.url))
        threading.Event().wait(BETWEEN_S)
        told: dict[str, Any] = {"rate": rate, "salt": self.salt, "capacity": asdict(self.kept.capacity[cell.tokens])}
        told |= {"begun": datetime.now(UTC).isoformat(timespec="seconds"), **machine(), **self._engines(bench)}
        begun = time.monotonic()
        records = self._recorded(bench, folder, lambda heard: load.send(bench.url, heard), load.requests, told)
        client.write(folder / CLIENT, records)
        self.kept.settle(cell, {**told, "seconds": time.monotonic() - begun, "requests": load.requests, **load.told})
        self.progress.finish()
        self.measured(cell)

    def _recorded(
        self,
        bench: Bench,
        folder: Path,
        load: Callable[[Callable[[ClientRecord], None]], list[ClientRecord]],
        requests: int,
        told: dict[str, Any],
    ) -> list[ClientRecord]:
        """The answers; into `folder` what the rings hold of them, and into `told` what was lost of that."""
        answered = {True: 0, False: 0}

        def heard(record: ClientRecord) -> None:
            answered[record.ok] += 1
            self.progress.detail(f"{answered[True]} of {requests} answered, {answered[False]} failed")

        run_dir = bench.run_dir
        tapped = recording(run_dir, folder / RECORDING, passed(run_dir)) if run_dir else nullcontext()
        with tapped as tap:
            records = load(heard)
        if tap is not None:
            told |= {"events": tap.events, "lost": tap.lost, "faults": list(tap.faults)}
        return records

    def _engines(self, bench: Bench) -> dict[str, Any]:
        """What served the cell, as far as we know it."""
        if isinstance(bench, OwnBench):
            return {"pair": asdict(bench.pair.options), "url": bench.url}
        return {"url": bench.url}

    def _title(self, cell: Cell, rate: float, capacity: dict[int, float]) -> str:
        whole, left = len(cells(self.options)), self.left
        seconds = seconds_left(left, self.options, capacity, started=True)
        return (
            f"cell {whole - len(left) + 1} of {whole}: {cell.mode_words}, {cell.length} at {rate:.3g}/s"
            f" ({minutes(seconds)} left)"
        )


def pair_options(options: SweepOptions, connector: str, python: Path | None) -> PairOptions:
    """The engines of a connector. Of the production shape they cache prefixes, and pull reads answers back."""
    if options.shape != PRODUCTION:
        return PairOptions(connector, python=python)
    back = {"bidirectional_kv_xfer": True, "decoder_kv_blocks_ttl": BLOCKS_TTL_S} if connector == "pull" else {}
    return PairOptions(
        connector, decodes=options.decodes, python=python, extra_config=back, vllm_args=("--enable-prefix-caching",)
    )


def machine() -> dict[str, Any]:
    """What it was measured on, and by."""
    told = {"cores": len(os.sched_getaffinity(0)), "load_average": os.getloadavg()[0], "platform": platform.platform()}
    return {"machine": told, "kvscope": version("kvscope")}


def minutes(seconds: float) -> str:
    """`about 7 min`."""
    return f"about {max(1, round(seconds / 60))} min" if seconds else "how long is not known yet"


def _why(records: Sequence[ClientRecord]) -> str:
    failed = next((record for record in records if not record.ok), None)
    return (failed.error or f"status {failed.status}") if failed else "no request was sent"
