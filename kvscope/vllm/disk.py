"""The patch set applied to an installation on disk, for images, and taken off again byte for byte.

What state a file is in is read from its contents: as released, or that plus exactly the patch's lines. So a
run that was killed half way leaves nothing unknown: `status` says which files are done, `apply` finishes
them, `revert` takes them back. Files are replaced by rename, never written in place: an installer's hard
links keep their contents, and a running engine keeps what it has read. Only what contents cannot tell, the
times that revert restores, lies in a journal beside the package.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

from kvscope.model.errors import InputError
from kvscope.vllm import patchfile
from kvscope.vllm.installation import PATCHED, STOCK, File, Survey

JOURNAL = ".kvscope-patch.json"
ASIDE = ".kvscope"
"""Suffix of a byte code file that Python would have used without looking at its source."""

Times = dict[str, list[int]]
"""Upstream path -> access and modification time (ns) of the file as released."""


def apply(survey: Survey) -> list[str]:
    """Patch every file that is not; gives their paths. Nothing is touched when one of them cannot be."""
    if refusal := survey.refusal():
        raise InputError(refusal)
    todo = survey.of(STOCK)
    _require_writable(todo)
    with _journal(survey) as journal:
        times = journal.times()
        for file in todo:
            info = file.path.stat()
            times[file.patch.path] = [info.st_atime_ns, info.st_mtime_ns]
        new = [(file, patchfile.apply(file.patch, file.data or b"")) for file in todo]
        journal.write(times)
        for file, data in new:
            _replace(file.path, data, None)
            _move_unchecked(file.path, apply=True)
    return [file.patch.path for file in todo]


def revert(survey: Survey) -> list[str]:
    """Take the lines off every file that has them; gives their paths. Refuses when one was changed since."""
    if refusal := survey.refusal():
        raise InputError(f"cannot revert: {refusal}")
    todo = survey.of(PATCHED)
    _require_writable(todo)
    with _journal(survey) as journal:
        times = journal.times()
        for file in todo:
            stock = patchfile.remove(file.patch, file.data or b"")
            if stock is None:
                raise InputError(f"{file.path} changed while it was being reverted; run revert again")
            _replace(file.path, stock, times.get(file.patch.path))
            _move_unchecked(file.path, apply=False)
        journal.remove()
    return [file.patch.path for file in todo]


def describe(survey: Survey) -> str:
    """One word or phrase for the whole installation."""
    patched, total = len(survey.of(PATCHED)), len(survey.files)
    if survey.refusal():
        return "not supported" if not patched else f"patched in part and not supported ({patched} of {total} files)"
    if patched == total:
        return "patched"
    return "as released" if not patched else f"patched in part ({patched} of {total} files); run apply or revert"


def _require_writable(files: tuple[File, ...]) -> None:
    for file in files:
        if file.path.is_symlink():
            raise InputError(f"{file.path} is a symbolic link; patch the file it points to, in its own installation")
        if not os.access(file.path.parent, os.W_OK):
            raise InputError(f"{file.path.parent} is read-only; apply the patches where the image is built")


class _Journal:
    """Times of the files as released, kept while any file is patched."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def times(self) -> Times:
        try:
            held: Times = json.loads(self._path.read_text())["times"]
        except (FileNotFoundError, ValueError, KeyError):
            return {}
        return held

    def write(self, times: Times) -> None:
        _replace(self._path, json.dumps({"times": times}, indent=1).encode(), None)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


@contextlib.contextmanager
def _journal(survey: Survey) -> Iterator[_Journal]:
    """The installation's journal, held by one process at a time."""
    package = survey.base / "vllm"
    folder = os.open(package, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield _Journal(package / JOURNAL)
    finally:
        os.close(folder)


def _replace(path: Path, data: bytes, times: list[int] | None) -> None:
    """Put `data` in the file's place in one step, with its mode and owner, and these times if given."""
    temporary = path.with_name(f"{path.name}{ASIDE}.{os.getpid()}")
    try:
        with temporary.open("xb") as out:
            out.write(data)
            if path.exists():
                info = path.stat()
                with contextlib.suppress(PermissionError):
                    os.fchown(out.fileno(), info.st_uid, info.st_gid)
                os.fchmod(out.fileno(), info.st_mode & 0o7777)
            out.flush()
            os.fsync(out.fileno())
        if times is not None:
            os.utime(temporary, ns=(times[0], times[1]))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _move_unchecked(path: Path, *, apply: bool) -> None:
    """Put byte code that Python trusts without a look at the source aside, or back."""
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc" + ("" if apply else ASIDE)):
        if not apply:
            os.replace(compiled, compiled.with_name(compiled.name.removesuffix(ASIDE)))
        elif int.from_bytes(compiled.read_bytes()[4:8], "little") & 0b11 == 0b01:
            os.replace(compiled, compiled.with_name(compiled.name + ASIDE))
