"""pip of one virtual environment, with the settings that pip has on this machine."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from kvscope.lab.process import run_logged
from kvscope.lab.progress import Progress


@dataclass(frozen=True)
class Pip:
    """Each call tells its progress; its output goes to `log`. LabError: it failed."""

    folder: Path
    """Of the virtual environment."""
    log: Path
    progress: Progress

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.folder / "bin" / "python"

    def install(self, *words: str) -> None:
        """`pip install` with these words."""
        self._run("install", "--progress-bar", "off", *words)

    def uninstall(self, *names: str) -> None:
        """Remove packages; those that are not there are no error."""
        self._run("uninstall", "-y", *names)

    def _run(self, verb: str, *words: str) -> None:
        self.run(f"pip {verb}", "pip", "--disable-pip-version-check", "--no-input", verb, *words)

    def run(self, name: str, module: str, *words: str) -> None:
        """Run a module of the environment, called `name` in what is said of it."""
        scratch = self.folder / "tmp"  # gigabytes pass through it: they lie where room was checked for
        scratch.mkdir(exist_ok=True)
        command = ["env", f"TMPDIR={scratch}", str(self.python), "-m", module, *words]
        try:
            run_logged(name, command, self.log, self.progress.detail)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
