"""A sweep on disk: what was asked for, the capacity that was measured, and a folder for each cell that is done."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kvscope.lab.sweeping.cell import Cell, canonical
from kvscope.lab.sweeping.plan import RECIPE, SweepOptions
from kvscope.model.errors import InputError

MANIFEST, CELLS, CELL = "sweep.json", "cells", "cell.json"
RECORDING, CLIENT = "recording.kvs", "client.jsonl"
LOCK = ".lock"
VERSION = 1


@dataclass(frozen=True)
class Capacity:
    """What the machine can do, as a burst showed."""

    rate: float
    """Requests per second; 0 where nobody needed to know."""
    requests: int
    """Of the burst that showed it."""
    mode: str
    """Under which mode."""
    letters: float = 1.0
    """Letters that make a token."""


@dataclass
class Kept:
    """A sweep's folder."""

    folder: Path
    options: SweepOptions
    capacity: dict[int, Capacity] = field(default_factory=dict)
    """By prompt length."""

    def place(self, cell: Cell) -> Path:
        """Where a cell is once it is done."""
        return self.folder / CELLS / cell.name

    def done(self, cell: Cell) -> bool:
        """Whether it need not be measured again."""
        return (self.place(cell) / CELL).exists()

    def begin(self, cell: Cell) -> Path:
        """A folder to fill; what was cut short there goes."""
        beside = self.place(cell).with_name(f".{cell.name}.part")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        return beside

    def settle(self, cell: Cell, told: dict[str, Any]) -> None:
        """It is done: from now on it is not measured again."""
        beside = self.place(cell).with_name(f".{cell.name}.part")
        (beside / CELL).write_text(json.dumps({"cell": asdict(cell), **told}, indent=1, default=str))
        beside.rename(self.place(cell))

    def learn(self, capacity: dict[int, Capacity]) -> None:
        """Keep what was measured: cells of a later start have to mean the same."""
        self.capacity |= capacity
        self.save()

    def save(self) -> None:
        """Write the manifest."""
        told = {
            "version": VERSION,
            "recipe": RECIPE,
            "plan": self.options.digest,
            "options": asdict(self.options),
            "capacity": {str(tokens): asdict(each) for tokens, each in self.capacity.items()},
        }
        beside = self.folder / f".{MANIFEST}.part"
        beside.write_text(json.dumps(told, indent=1))
        beside.replace(self.folder / MANIFEST)


def default_folder(options: SweepOptions) -> Path:
    """Named by what is asked for, so that the same command finds it again."""
    return Path(f"kvscope-sweep-{options.digest[:8]}")


@contextmanager
def opened(folder: Path, options: SweepOptions) -> Iterator[Kept]:
    """The folder, made if need be, and nobody else's meanwhile. InputError: it holds another sweep, or other things."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is there and is no folder; name another")
    if folder.is_dir() and not (folder / MANIFEST).exists() and any(each.name != LOCK for each in folder.iterdir()):
        raise InputError(f"{folder} holds something else than a sweep; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    with open(os.open(folder / LOCK, os.O_WRONLY | os.O_CREAT, 0o666), "wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"another sweep writes into {folder} now; wait for it, or name another folder") from None
        kept = Kept(folder, options, _known(folder, options))
        kept.save()
        yield kept


def _known(folder: Path, options: SweepOptions) -> dict[int, Capacity]:
    path = folder / MANIFEST
    if not path.exists():
        return {}
    try:
        told = json.loads(path.read_text())
        was, recipe = dict(told["options"]), told["recipe"]
        capacity = {int(tokens): Capacity(**each) for tokens, each in told["capacity"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no manifest of a sweep ({error}); name another folder") from None
    now = json.loads(canonical(asdict(options)))
    if changed := [name for name in now if was.get(name) != now[name]]:
        first = changed[0]
        raise InputError(
            f"{folder} holds a sweep with other options: {first} was {_shown(was.get(first))} and is"
            f" {_shown(now[first])}; type the command as it was, or name another folder"
        )
    if recipe != RECIPE:
        raise InputError(f"{folder} holds a sweep of another version of kvscope; name another folder")
    return capacity


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else repr(value)
