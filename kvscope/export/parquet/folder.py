"""The folder that is being written: files beside their places, put there together when all are whole."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from kvscope.export.interrupts import undisturbed
from kvscope.export.making import Making, beside, refused
from kvscope.model.errors import InputError
from kvscope.sources.parquet.columns import TABLES
from kvscope.sources.parquet.manifest import FILE, Manifest


class Folder:
    """What is in it keeps its place until the new files take it."""

    def __init__(self, path: Path, force: bool) -> None:
        """Make it where it is not there. InputError: something is in it (and not `force`), or it cannot be written."""
        self.path = path
        self._made = self._make(force)
        self._files: list[Making] = []
        try:
            self._manifest = Making(path / FILE, str(path))
        except BaseException:
            self._leave()
            raise

    def _make(self, force: bool) -> bool:
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file; Parquet files go into a folder: name another place")
        try:
            if self.path.is_dir():
                self._look_into(force)
                return False
            self.path.mkdir()
            return True
        except OSError as error:
            raise refused(str(self.path), error) from None

    def _look_into(self, force: bool) -> None:
        """InputError: something is in it that is no earlier export's, or is one and is not to be replaced."""
        names = {FILE, *(table.file for table in TABLES)}
        there = {each.name for each in self.path.iterdir()} - {beside(self.path / name).name for name in names}
        others = sorted(there - names)
        if others:
            more = f" and {len(others) - 1:,} more" if others[1:] else ""
            what = f"holds {others[0]}{more}, which no export made"
            raise InputError(f"{self.path} {what}: tables go into a folder of their own; name another")
        if there and not force:
            raise InputError(f"{self.path} holds an export already; name another folder, or add --force to replace it")

    def file(self, name: str) -> Making:
        """A file of the folder, to be written."""
        self._files.append(Making(self.path / name, str(self.path)))
        return self._files[-1]

    def place(self, manifest: Manifest) -> None:
        """Everything was written: put it in its place. InputError: that does not work."""
        self._manifest.write(manifest.text().encode())
        for file in (*self._files, self._manifest):
            file.settle()
        with undisturbed():
            self._place()

    def _place(self) -> None:
        try:
            (self.path / FILE).unlink(missing_ok=True)  # from here on the old one is not whole
        except OSError as error:
            raise refused(str(self.path), error) from None
        for file in (*self._files, self._manifest):
            file.place()
        self._settle()

    def _settle(self) -> None:
        with suppress(OSError):  # some file systems know no such thing
            folder = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def abandon(self) -> None:
        """Leave nothing of it behind."""
        for file in (*self._files, self._manifest):
            file.abandon()
        self._leave()

    def _leave(self) -> None:
        if self._made:
            with suppress(OSError):
                self.path.rmdir()
