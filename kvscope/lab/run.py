"""One run: a pair, something in front of it, a load, and what came of it in a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

from kvscope.lab import client
from kvscope.lab.client import ClientRecord
from kvscope.lab.dispatch import Conduct
from kvscope.lab.front import Front
from kvscope.lab.load import LoadOptions, only_measured, plan
from kvscope.lab.pair import Pair, PairOptions
from kvscope.lab.progress import Progress
from kvscope.lab.recording import recording
from kvscope.model.counting import count
from kvscope.model.errors import InputError

RECORDING = "run.kvs"
CLIENT = "client.jsonl"
OPTIONS = "lab.json"
ROUTERS = ("kvscope", "vllm-router")


@dataclass(frozen=True)
class RunOptions:
    """What is run."""

    pair: PairOptions = field(default_factory=PairOptions)
    load: LoadOptions = field(default_factory=LoadOptions)
    router: str = "kvscope"
    dispatch: str = "sequential"
    hold_ms: float = 0.0
    keep: bool = False
    """Leave pair and router up."""

    def checked(self) -> RunOptions:
        """Itself. InputError: the parts do not go together; better said before a minute's start."""
        if self.router not in ROUTERS:
            raise InputError(f"the router is {' or '.join(ROUTERS)}, not {self.router!r}")
        Conduct(self.dispatch, self.hold_ms).checked(self.pair.connector)
        longest = max(length for length, _ in self.load.input_tokens) + self.load.output_tokens
        if longest > self.pair.model.positions:
            raise InputError(f"prompt and output take {longest} tokens, and the model has {self.pair.model.positions}")
        plan(self.load)
        for name, wish in (("decodes", self.pair.decodes), ("blocks", self.pair.blocks), ("lease", self.pair.lease_s)):
            if wish is not None and wish < 1:
                raise InputError(f"--{name} {wish}: choose 1 or more")
        return self


@dataclass(frozen=True)
class RunResult:
    """What came of it."""

    folder: Path
    records: tuple[ClientRecord, ...]
    """What the client saw, warm-up included; also in `client.jsonl`."""
    recording: Path | None
    """None for stock engines."""
    events: int
    lost: int
    faults: tuple[str, ...]
    """What could not be read of the rings."""
    url: str
    """Of the router: still up if the pair was kept."""
    run_dir: Path

    @property
    def measured(self) -> list[ClientRecord]:
        """The records of the load itself."""
        return only_measured(list(self.records))

    @property
    def failed(self) -> list[ClientRecord]:
        """Requests, warm-up included, that were not answered in full."""
        return [record for record in self.records if not record.ok]


def run(options: RunOptions, folder: Path, progress: Progress) -> RunResult:
    """Do it. InputError: options that cannot be. LabError: something did not come up."""
    options.checked()
    if (folder / CLIENT).exists():
        raise InputError(f"{folder} holds an earlier run; name another folder")
    with Pair(options.pair, folder, progress) as pair:
        (folder / OPTIONS).write_text(json.dumps(asdict(options), indent=1, default=str))
        front = _front(pair, options)
        result = _stock(pair, front, options) if options.pair.stock else _recorded(pair, front, options)
        client.write(folder / CLIENT, result.records)
        if options.keep:
            pair.keep()
    return result


def _front(pair: Pair, options: RunOptions) -> Front:
    pair.progress.phase("start the router")
    if options.router == "vllm-router":
        return pair.vllm_router()
    return pair.router(options.dispatch, options.hold_ms)


def _recorded(pair: Pair, front: Front, options: RunOptions) -> RunResult:
    path = pair.folder / RECORDING
    with recording(pair.run_dir, path) as tap:
        records = pair.load(options.load, front.url)
    return RunResult(
        pair.folder, tuple(records), path, tap.events, tap.lost, tuple(tap.faults), front.url, pair.run_dir
    )


def _stock(pair: Pair, front: Front, options: RunOptions) -> RunResult:
    records = pair.load(options.load, front.url)
    return RunResult(pair.folder, tuple(records), None, 0, 0, (), front.url, pair.run_dir)


def new_folder(now: datetime) -> Path:
    """A folder for a run, in the current directory, named by the time."""
    return Path(f"kvscope-lab-{now:%Y%m%d-%H%M%S}")


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of a sample lies, nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def seen_by_client(records: Sequence[ClientRecord]) -> str:
    """One line on what the client saw of the measured requests."""
    ttfts = [record.ttft_ns / 1e6 for record in records if record.ok and record.ttft_ns is not None]
    line = f"the client: {len(ttfts)} of {count(len(records), 'request')} answered"
    if ttfts:
        line += f"; TTFT median {quantile(ttfts, 0.5):.0f} ms, p90 {quantile(ttfts, 0.9):.0f} ms"
    return line
