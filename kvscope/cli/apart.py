"""What is written must not take the place of what it is made of: a recording that is gone cannot be made again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kvscope.model.errors import InputError

READ = (".kvs", ".ring", ".parquet", ".jsonl")
MANIFESTS = ("export.json", "incident.json")
"""What a folder that is a source is made of; other files in it may be replaced."""


def check_apart(sources: Sequence[Path | str], *targets: Path | str | None) -> None:
    """InputError: a file or folder to write is one of those that are read, or is part of one."""
    for target in (Path(each) for each in targets if each):
        if target.exists() and any(target.samefile(each) for each in _read(sources)):
            raise InputError(f"{target} is what is read; name another place to write to")


def _read(sources: Sequence[Path | str]) -> Iterator[Path]:
    """The files and folders that are there."""
    for source in map(Path, sources):
        if source.exists():
            yield source
        if source.is_dir():
            yield from (each for each in source.iterdir() if each.suffix in READ or each.name in MANIFESTS)
