"""The file or pipe that a recording goes into."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path
from types import TracebackType

from kvscope.model.errors import InputError

STDOUT = "-"
AGAIN = "; record anew"
_OTHERS = (errno.EWOULDBLOCK, errno.EACCES)
"""What a lock says that somebody else has."""


class Output:
    """What `probe.recording.Writer` writes to. A file is this process's alone while it is open: two recordings in one
    would be none."""

    def __init__(self, path: Path, force: bool) -> None:
        """FileExistsError: it is there (and not `force`). InputError: another recording goes into it, or a person would
        see it. OSError: it cannot be written."""
        self.path = path
        self._file = open(_opened(path, force), "wb")  # noqa: SIM115 - closed by __exit__
        # What standard output goes to is whoever sent it there's: nothing in it is replaced.
        self._is_file = str(path) != STDOUT and stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)
        self.size = self.unremoved = self.removed = 0
        """Bytes written; there are no parts to remove."""
        self.faults: tuple[str, ...] = ()
        try:
            self._take()
        except BaseException:
            self._file.close()
            raise

    def _take(self) -> None:
        if self._file.isatty():
            raise InputError("a recording is nothing for a terminal; name a file, or send it into one")
        if self._is_file:
            self._lock()
            self._file.truncate(0)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:  # some file systems have no locks
            if error.errno in _OTHERS:
                raise InputError(f"another recording goes into {self.path} now; name another file") from None

    @property
    def kept(self) -> int:
        """Bytes of it that are there."""
        return self.size

    def write(self, data: bytes, /) -> None:
        """Take it all."""
        self._file.write(data)
        self.size += len(data)

    def flush(self) -> None:
        """Let a reader see it."""
        self._file.flush()

    def check(self) -> None:
        """InputError: what was written is not there any more."""
        found = os.fstat(self._file.fileno())
        if self._is_file and (found.st_nlink == 0 or found.st_size < self.size):
            how = "removed" if found.st_nlink == 0 else "cut short"
            raise InputError(f"{self.path} was {how} while it was recorded, and what was in it is lost{AGAIN}")

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()


def _opened(path: Path, force: bool) -> int:
    """A descriptor. A pipe that nobody reads is refused, not waited for; one that is there is no file to replace."""
    if str(path) == STDOUT:
        return os.dup(1)
    new = os.O_CREAT if force or _is_stream(path) else os.O_CREAT | os.O_EXCL
    fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | new, 0o666)
    os.set_blocking(fd, True)
    return fd


def _is_stream(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)
