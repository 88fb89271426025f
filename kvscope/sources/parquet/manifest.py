"""What a Parquet folder holds, written last. Without it, or where a file is not as it says, the folder is not whole."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from kvscope.model.errors import InputError
from kvscope.probe import regular
from kvscope.sources.parquet.columns import EVENTS

FILE = "export.json"
VERSION = 1
READ_BYTES = 1 << 20
DO = "export the recording anew (`kvscope export REC --parquet DIR`)"


@dataclass(frozen=True)
class Entry:
    """A file as it was written."""

    bytes: int
    crc32: int
    rows: int


@dataclass(frozen=True)
class Manifest:
    """All files, and what does not fit into a table."""

    files: dict[str, Entry]
    notes: tuple[str, ...] = ()
    """What reading the recordings had to say."""
    impossible: int = 0
    """Records that cannot be events: of unknown moments or impossible times. They are in no table."""
    kvscope: str = field(default="")
    """The version that wrote it."""

    def text(self) -> str:
        """As it is kept: JSON with a checksum of its own."""
        told: dict[str, Any] = {
            "version": VERSION,
            "kvscope": self.kvscope,
            "files": {name: vars(entry) for name, entry in self.files.items()},
            "impossible": self.impossible,
            "notes": list(self.notes),
        }
        return json.dumps({**told, "crc32": _sum(told)}, indent=1) + "\n"


def _sum(told: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(told, sort_keys=True).encode())


def is_export(folder: Path) -> bool:
    """Whether the folder was, or was to be, made by `kvscope export --parquet`."""
    return (folder / FILE).exists() or (folder / EVENTS.file).exists()


def read_manifest(folder: Path) -> Manifest:
    """InputError: it is not there, damaged, or of another version."""
    try:
        told = json.loads(regular.read(folder / FILE))
        if told.get("version") != VERSION:
            given = str(told.get("version"))[:20]
            raise InputError(f"{folder} is an export of version {given}, this kvscope reads version {VERSION}: {DO}")
        check = told.pop("crc32")
        if check != _sum(told):
            raise ValueError("its checksum is another")
        files = {str(name): Entry(**entry) for name, entry in told["files"].items()}
        return Manifest(files, tuple(told["notes"]), told["impossible"], told["kvscope"])
    except FileNotFoundError:
        raise InputError(
            f"{folder} holds Parquet files but no {FILE}, so that it is cut short or not of kvscope: {DO}"
        ) from None
    except OSError as error:
        raise InputError(f"{folder / FILE} cannot be read: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{folder / FILE} is damaged: {DO}") from None


def opened(folder: Path, name: str, manifest: Manifest) -> BinaryIO:
    """One of the files, gone through once. InputError: it is not as it was written."""
    path = folder / name
    try:
        file = regular.opened(path)
    except FileNotFoundError:
        raise InputError(f"{path} is missing: {DO}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    try:
        entry = manifest.files.get(name)
        if entry is None or (entry.bytes, entry.crc32) != _measured(file):
            raise InputError(f"{path} is not as it was written, but damaged, cut or of another export: {DO}")
        file.seek(0)
    except OSError as error:
        file.close()
        raise InputError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    except InputError:
        file.close()
        raise
    return file


def _measured(file: BinaryIO) -> tuple[int, int]:
    size = crc = 0
    while piece := file.read(READ_BYTES):
        size, crc = size + len(piece), zlib.crc32(piece, crc)
    return size, crc
