"""Several files replaced as if at once: all is written beside them before one is touched, and what fails is undone.

Each is replaced by rename, never written in place: an installer's hard links keep their contents, and a running
engine keeps what it has read. Names beside a file are its own and a random part, so that none is taken twice.
"""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from kvscope.model.errors import InputError

BESIDE = ".kvscope."
"""Between a file's name and the random part of what is written beside it."""

Times = tuple[int, int]
"""Access and modification time, ns."""


@dataclass(frozen=True)
class New:
    """What shall be in a file's place, with its mode and owner, and these times if given."""

    path: Path
    data: bytes
    times: Times | None = None


@contextlib.contextmanager
def replaced(files: Sequence[New]) -> Iterator[None]:
    """Replace them all; what the block raises undoes it. InputError: they cannot be, and are as they were."""
    with ExitStack() as beside:
        renames = [_written(one, beside) for one in files]
        with ExitStack() as undo:
            for one, (new, old) in zip(files, renames, strict=True):
                undo.callback(_put_back, one.path, new, old)
                _rename(new, one.path, one.path)
            yield
            undo.pop_all()


@contextlib.contextmanager
def moved(moves: Iterable[tuple[Path, Path]]) -> Iterator[None]:
    """Rename each file to its target; what the block raises undoes it. InputError: as above."""
    with ExitStack() as undo:
        for origin, target in moves:
            undo.callback(_put_back, target, origin, None)
            _rename(origin, target, origin)
        yield
        undo.pop_all()


def clear(paths: Iterable[Path]) -> None:
    """Remove what a process that was killed left beside these files. Nobody may be replacing them now."""
    for path in paths:
        for left in path.parent.glob(f"{glob.escape(path.name + BESIDE)}*"):
            with contextlib.suppress(OSError):  # it is in nobody's way
                left.unlink()


def _written(one: New, beside: ExitStack) -> tuple[Path, Path | None]:
    """(the new file, a copy of what is in its place if anything is); `beside` removes what is left of them."""
    new, old = (one.path.with_name(f"{one.path.name}{BESIDE}{secrets.token_hex(8)}") for _ in range(2))
    beside.callback(old.unlink, missing_ok=True)
    beside.callback(new.unlink, missing_ok=True)
    try:
        info = one.path.stat() if one.path.exists() else None
        _write(new, one.data, info, one.times)
        if info is None:
            return new, None
        _write(old, one.path.read_bytes(), info, (info.st_atime_ns, info.st_mtime_ns))
    except OSError as error:
        raise _refused(one.path, error) from None
    return new, old


def _write(path: Path, data: bytes, like: os.stat_result | None, times: Times | None) -> None:
    with path.open("xb") as out:
        out.write(data)
        if like is not None:
            with contextlib.suppress(PermissionError):
                os.fchown(out.fileno(), like.st_uid, like.st_gid)
            os.fchmod(out.fileno(), like.st_mode & 0o7777)
        out.flush()
        os.fsync(out.fileno())
    if times is not None:
        os.utime(path, ns=times)


def _rename(origin: Path, target: Path, named: Path) -> None:
    try:
        os.replace(origin, target)
    except OSError as error:
        raise _refused(named, error) from None


def _put_back(path: Path, source: Path, old: Path | None) -> None:
    """Undo the rename of `source` to `path`, if it was done: `old` takes its place, or what it was is renamed back."""
    if not source.exists():
        os.replace(old or path, path if old else source)


def _refused(path: Path, error: OSError) -> InputError:
    reason = (error.strerror or str(error)).lower()
    return InputError(f"cannot replace {path}: {reason}; nothing was changed, mend that and run it again")
