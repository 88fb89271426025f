"""A folder that is one writer's alone, for as long as it lives. Standard library only."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from kvscope.model.errors import InputError


def locked(folder: Path, taken: str) -> int:
    """A descriptor that holds the lock until it is closed, or its process ends. InputError(`taken`): another has it."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # some file systems have no locks
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            os.close(fd)
            raise InputError(taken) from None
    return fd
