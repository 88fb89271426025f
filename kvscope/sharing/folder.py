"""A folder that is given away: the recording, and the stacks that were sampled meanwhile. Whole, or not there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kvscope.model.errors import InputError
from kvscope.sharing.output import usual
from kvscope.sharing.share import Shared, Wishes, share
from kvscope.sharing.stacks import FILE, Stacks, write_stacks

RECORDING = "recording.kvs"


def share_folder(
    paths: Sequence[Path | str], folder: Path, wishes: Wishes, told: Callable[[float], None] = lambda share: None
) -> Shared:
    """As `share`, into a folder, with the one stacks.jsonl that lies in the folders named. InputError: there is none,
    or several, `folder` is there, or as for `share`."""
    stacks = _the_stacks(paths)
    if folder.exists():
        raise InputError(f"{folder} is there already; with --stacks a new folder is made, so name another")
    try:
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise InputError(f"cannot write {folder}: {(error.strerror or str(error)).lower()}; name another") from None
    try:
        shared = share(paths, made / RECORDING, wishes, told=told)
        _add(shared, stacks, made / FILE)
        made.chmod(usual(0o777))
        made.rename(folder)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {(error.strerror or str(error)).lower()}; name another") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return shared


def _add(shared: Shared, source: Path, path: Path) -> None:
    stacks = Stacks(shared.names, shared.clocks)
    shared.samples = write_stacks(source, path, stacks)
    shared.size += path.stat().st_size
    if stacks.dropped:
        shared.notes += (f"{stacks.dropped:,} lines of {source} were left out: notes, and samples of no use",)


def stacks_in(paths: Sequence[Path | str]) -> list[Path]:
    """The files of stacks that lie in the folders named."""
    return [Path(path) / FILE for path in paths if (Path(path) / FILE).is_file()]


def _the_stacks(paths: Sequence[Path | str]) -> Path:
    found = stacks_in(paths)
    if len(found) != 1:
        many = "none" if not found else f"{len(found)}"
        raise InputError(f"--stacks takes one folder with a {FILE}, and {many} was named: `kvscope profile` makes one")
    return found[0]
