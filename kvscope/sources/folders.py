"""Folders as sources: the parts of one recording, an incident, or rings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvscope.model.counting import count
from kvscope.model.errors import InputError
from kvscope.probe.recording import FILE_HEADER

PARTS, RINGS = "*.kvs", "*.ring"


@dataclass(frozen=True)
class Member:
    """Something to read."""

    path: str
    """A file, a directory with rings, or `-`"""
    part: bool = False
    """It was found in a folder: that it is gone or damaged by now is said, and no reason to end."""

    @property
    def size(self) -> int:
        """Bytes; 0 where that is not known."""
        try:
            return Path(self.path).stat().st_size if Path(self.path).is_file() else 0
        except OSError:
            return 0

    @property
    def why_empty(self) -> str:
        """Of a part that is gone, or holds nothing: the sentence that says so."""
        if self.part and not Path(self.path).exists():
            return f"{self.path} was removed before it was read; its events are missing"
        if self.part and not Path(self.path).is_file():
            return f"{self.path} is named as parts are and is no file; it is not read"
        if self.part and self.size < FILE_HEADER.size:
            return f"{self.path} holds nothing: whoever writes it has just begun, or was ended then"
        return ""


def members(paths: Sequence[Path | str]) -> list[Member]:
    """What the names stand for: a folder of parts for each of them. InputError: a folder cannot be looked into."""
    return [member for path in paths for member in _members(str(path))]


def _members(path: str) -> Iterator[Member]:
    folder = Path(path)
    if not folder.is_dir():
        yield Member(path)
        return
    parts = _listed(folder, PARTS)
    yield from (Member(str(part), part=True) for part in parts)
    if not parts or _listed(folder, RINGS):
        _no_folder_of_folders(folder, parts)
        yield Member(path)


def _no_folder_of_folders(folder: Path, parts: list[Path]) -> None:
    """InputError: nothing lies in it, but recordings lie in folders within it."""
    within = [] if parts or _listed(folder, RINGS) else _listed(folder, f"*/{PARTS}")
    found = sorted({part.parent for part in within})
    if found:
        raise InputError(
            f"{folder} holds {count(len(found), 'folder')} with a recording; name one of them, such as {found[-1]}"
        )


def _listed(folder: Path, pattern: str) -> list[Path]:
    try:
        list(folder.iterdir())  # glob() says nothing of what it may not look into
        return sorted(path for path in folder.glob(pattern) if not path.name.startswith(".") and not path.is_dir())
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {(error.strerror or str(error)).lower()}") from None
