"""The patch set applied to an installation on disk, for images, and taken off again byte for byte.

What state a file is in is read from its contents: as released, or that plus exactly the patch's lines. So a
run that was killed half way leaves nothing unknown: `status` says which files are done, `apply` finishes
them, `revert` takes them back. All of it is looked at and done by one process at a time.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kvscope.model.errors import InputError
from kvscope.probe import regular
from kvscope.vllm import installation, journal, patchfile
from kvscope.vllm.installation import PATCHED, STOCK, File, Survey
from kvscope.vllm.replacement import New, Times, clear, moved, replaced

ASIDE = ".kvscope"
"""Suffix of a byte code file that Python would have used without looking at its source."""


@dataclass(frozen=True)
class Done:
    """What was done to an installation."""

    found: Survey
    """As it was before."""
    paths: tuple[str, ...]
    """Upstream paths of the files that were changed."""


def apply(root: Path, base: Path) -> Done:
    """Patch every file of the vLLM in `base` that is not. InputError: one of them cannot be; nothing is changed."""
    with _alone(base):
        found = _prepared(root, base, STOCK, "")
        todo = found.of(STOCK)
        new = [New(file.path, patchfile.apply(file.patch, file.data or b"")) for file in todo]
        if todo:
            at = base / "vllm" / journal.NAME
            times = journal.read(at) | {file.patch.path: _times(file.path) for file in todo}
            with moved(_unchecked(todo)), replaced([journal.written(at, times), *new]):
                pass
    return _done(found, todo)


def revert(root: Path, base: Path) -> Done:
    """Take the lines off every file that has them. InputError: one was changed since, or cannot be; as above."""
    with _alone(base):
        found = _prepared(root, base, PATCHED, "cannot revert: ")
        todo = found.of(PATCHED)
        at = base / "vllm" / journal.NAME
        times = journal.read(at)
        new = [New(file.path, file.stock(), times.get(file.patch.path)) for file in todo]
        with replaced(new), moved(_put_aside(found.files)):
            at.unlink(missing_ok=True)
    return _done(found, todo)


def describe(survey: Survey) -> str:
    """One word or phrase for the whole installation."""
    patched, total = len(survey.of(PATCHED)), len(survey.files)
    if survey.refusal():
        return "not supported" if not patched else f"patched in part and not supported ({patched} of {total} files)"
    if patched == total:
        return "patched"
    return "as released" if not patched else f"patched in part ({patched} of {total} files); run apply or revert"


def _done(found: Survey, files: tuple[File, ...]) -> Done:
    return Done(found, tuple(file.patch.path for file in files))


@contextlib.contextmanager
def _alone(base: Path) -> Iterator[None]:
    """Hold the package: what another process finds there is from before, or from after."""
    package = base / "vllm"
    folder = os.open(package, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
        except OSError as error:
            raise InputError(f"{package} cannot be locked: {(error.strerror or str(error)).lower()}") from None
        yield
    finally:
        os.close(folder)


def _prepared(root: Path, base: Path, state: str, verb: str) -> Survey:
    """The installation, whose files of that state can be replaced, and beside which nothing is left."""
    found = installation.survey(root, base)
    if refusal := found.refusal():
        raise InputError(f"{verb}{refusal}")
    _require_writable(found.of(state))
    clear([base / "vllm" / journal.NAME, *(file.path for file in found.files)])
    return found


def _require_writable(files: tuple[File, ...]) -> None:
    for file in files:
        if file.path.is_symlink():
            raise InputError(f"{file.path} is a symbolic link; patch the file it points to, in its own installation")
        if not os.access(file.path.parent, os.W_OK):
            raise InputError(f"{file.path.parent} is read-only; apply the patches where the image is built")


def _times(path: Path) -> Times:
    info = path.stat()
    return info.st_atime_ns, info.st_mtime_ns


def _compiled(files: Iterable[File], suffix: str) -> Iterator[Path]:
    for file in files:
        found = file.path.parent.glob(f"__pycache__/{file.path.stem}.*.pyc{suffix}")
        yield from (path for path in found if path.is_file())


def _unchecked(files: Iterable[File]) -> Iterator[tuple[Path, Path]]:
    """Moves of byte code that Python trusts without a look at the source. They come first: it must hide nothing."""
    for path in list(_compiled(files, "")):
        if int.from_bytes(regular.read(path)[4:8], "little") & 0b11 == 0b01:
            yield path, path.with_name(path.name + ASIDE)


def _put_aside(files: Iterable[File]) -> Iterator[tuple[Path, Path]]:
    """The moves back."""
    for path in list(_compiled(files, ASIDE)):
        yield path, path.with_name(path.name.removesuffix(ASIDE))
