"""The file that is given away: whole, or not there."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from kvscope.export.making import led_to
from kvscope.model.errors import InputError


class Output:
    """Takes a file's bytes under another name in the same folder; it gets its own name once it is whole."""

    def __init__(self, path: Path, force: bool) -> None:
        """InputError: it is there (and not `force`), or it cannot be written."""
        self._path, self._force, self._place = path, force, led_to(path)
        if path.is_dir():
            raise InputError(f"{path} is a directory; name a file in it, such as {path / 'shared.kvs'}")
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is not a file; name one")
        if path.exists() and not force:
            raise self._there()
        try:
            fd, self._hidden = tempfile.mkstemp(prefix=f".{self._place.name}.", dir=self._place.parent)
        except OSError as error:
            raise self._failed(error) from None
        self._file = os.fdopen(fd, "wb")
        self.size = 0
        """Bytes written."""

    def write(self, data: bytes, /) -> None:
        """Take it all. InputError: there is no room."""
        try:
            self._file.write(data)
        except OSError as error:
            raise self._failed(error) from None
        self.size += len(data)

    def flush(self) -> None:
        """Nobody reads it yet."""

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if error is None:
                self._finish()
        except FileExistsError:
            raise self._there() from None
        except OSError as failure:
            raise self._failed(failure) from None
        finally:
            self._let_go()

    def _finish(self) -> None:
        os.fchmod(self._file.fileno(), usual(0o666))
        self._file.close()
        if self._force:
            os.replace(self._hidden, self._place)
        else:
            os.link(self._hidden, self._place)  # fails where somebody else has made it meanwhile

    def _let_go(self) -> None:
        with suppress(OSError):  # what it still held may have no room either
            self._file.close()
        Path(self._hidden).unlink(missing_ok=True)

    def _there(self) -> InputError:
        return InputError(f"{self._path} is there already; name another file, or add --force to replace it")

    def _failed(self, error: OSError) -> InputError:
        reason = (error.strerror or str(error)).lower()
        left = "the older file stays there" if self._path.exists() else "nothing was left there"
        return InputError(f"cannot write {self._path}: {reason}; {left}; name another file or make room")


def usual(mode: int) -> int:
    """What a file or folder that is made by its own name would have of a mode."""
    umask = os.umask(0)
    os.umask(umask)
    return mode & ~umask
