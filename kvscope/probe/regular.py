"""Reading files that a person named. What has a file's name and is a pipe would be waited for, without end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def read(path: Path, most: int | None = None) -> bytes:
    """All that is in a regular file. OSError, which names it: there is none, it is something else, or it has more than
    `most` bytes."""
    with opened(path) as file:
        data = file.read() if most is None else file.read(most + 1)
    if most is not None and len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
    return data


def opened(path: Path) -> BinaryIO:
    """A regular file, to be read and closed. OSError, which names it: there is none, or it is something else."""
    file = open(path, "rb", opener=_at_once)  # noqa: SIM115 - whoever asked closes it
    try:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
    except BaseException:
        file.close()
        raise
    return file


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
