"""A file that is written beside its place, and put there when it is whole: what was cut short is never taken for it."""

from __future__ import annotations

import errno
import fcntl
import os
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from kvscope.model.errors import InputError

BUFFER = 1 << 20
_FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota is used up", errno.EFBIG: "the file may not grow"}
_OTHERS = (errno.EWOULDBLOCK, errno.EACCES)
"""What a lock says that somebody else has."""


class Making:
    """A binary file, one piece after the other. It counts and sums up what it takes."""

    def __init__(self, path: Path, what: str = "") -> None:
        """`what`: the place as a person named it; where that is a link, what it leads to is written. InputError: it
        cannot be written, or somebody else writes it now."""
        self.path = led_to(path)
        self._beside = beside(self.path)
        self._what = what or str(path)
        self.size = self.crc32 = 0
        """Bytes, and their checksum."""
        try:
            self._file = open(os.open(self._beside, os.O_WRONLY | os.O_CREAT, 0o666), "wb", BUFFER)  # noqa: SIM115
        except OSError as error:
            raise refused(self._what, error) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file.truncate(0)  # what one left that was killed
        except OSError as error:
            self._file.close()
            if error.errno in _OTHERS:
                raise InputError(f"another export goes into {self._what} now; name another place") from None
            raise refused(self._what, error) from None

    @property
    def closed(self) -> bool:
        """Whether it takes no more."""
        return self._file.closed

    def write(self, data: bytes | memoryview, /) -> int:
        """Take it all. InputError: it cannot be written."""
        try:
            self._file.write(data)
        except OSError as error:
            raise refused(self._what, error) from None
        self.size, self.crc32 = self.size + len(data), zlib.crc32(data, self.crc32)
        return len(data)

    def tell(self) -> int:
        """Bytes so far."""
        return self.size

    def flush(self) -> None:
        """Nothing: nobody looks before it is whole."""

    def close(self) -> None:
        """Nothing: `settle` ends it."""

    def settle(self) -> None:
        """All of it is on the disk. InputError: it is not."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise refused(self._what, error) from None

    def place(self) -> None:
        """Put it in its place. InputError: that does not work."""
        try:
            self._beside.replace(self.path)
            self._file.close()
        except OSError as error:
            raise refused(self._what, error) from None

    def abandon(self) -> None:
        """Leave nothing."""
        with suppress(OSError):
            self._beside.unlink(missing_ok=True)
        with suppress(OSError):
            self._file.close()


def check_free(path: Path, force: bool) -> None:
    """InputError: a file is there (and not `force`), or what no file may replace, or it is `-`."""
    if str(path) == "-":
        raise InputError("what is written gets its name once it is whole, so it has to be a file; name one")
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is there and is no file, so nothing can take its place; name another file")
    if path.exists() and not force:
        raise InputError(f"{path} is there already; name another file, or add --force to replace it")


def led_to(path: Path) -> Path:
    """What is to be replaced: a link stays one, and what it leads to is. InputError: it leads round in a circle."""
    try:
        return path.resolve() if path.is_symlink() else path
    except (OSError, RuntimeError) as error:
        raise InputError(f"cannot write {path}: it is a link that leads nowhere ({error}); name another") from None


def beside(path: Path) -> Path:
    """Where a file is while it is being written."""
    return path.with_name(f".{path.name}.part")


def refused(what: str, error: OSError) -> InputError:
    """What to tell a person whose file cannot be written."""
    reason = _FULL.get(error.errno or 0, (error.strerror or str(error)).lower())
    return InputError(f"cannot write {what}: {reason}; {'make room or ' if error.errno in _FULL else ''}name another")


def write_whole(path: Path, pieces: Iterable[str]) -> int:
    """A file of text, there when it is whole; returns its size, bytes. InputError: it cannot be written."""
    file = Making(path)
    try:
        for piece in pieces:
            file.write(piece.encode(errors="replace"))
        file.settle()
        file.place()
    except BaseException:
        file.abandon()
        raise
    return file.size
