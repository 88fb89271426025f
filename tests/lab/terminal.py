"""A program on a terminal of its own, as a person would see it: tmux draws, keys go in, the text comes out."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from types import TracebackType

import pytest

PATIENCE_S = 30.0
POLL_S = 0.03

needs_tmux = pytest.mark.skipif(
    shutil.which("tmux") is None and not os.environ.get("CI"), reason="tmux is not installed: apt-get install tmux"
)


NOT_PASSED_ON = ("TMUX", "TMUX_PANE", "COLUMNS", "LINES")
"""Another terminal's: a size that is told there would hide this one's."""


class Terminal:
    """A context manager: a tmux server of its own with one window that runs a command. The server always ends."""

    def __init__(
        self,
        command: Sequence[str],
        size: tuple[int, int] = (100, 30),
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """`size`: columns, rows; `env`: on top of this process's; `folder`: where the command runs."""
        self._command, self._size, self._folder = command, size, folder
        self._env = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
        self._env |= {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", **(env or {})}
        self._made = tempfile.TemporaryDirectory(prefix="kvscope-tmux-")

    def __enter__(self) -> Terminal:
        columns, rows = map(str, self._size)
        words = ["set", "-g", "status", "off", ";", "set", "-g", "remain-on-exit", "on", ";", "new-session", "-d"]
        words += ["-x", columns, "-y", rows, "-c", str(self._folder or Path.cwd())]
        try:
            # The environment is the server's, which is begun here; its shell does not make it anew.
            self._tmux("start-server", ";", *words, "--", *self._command)
            self._server = int(self.told("pid"))
        except BaseException:
            self._made.cleanup()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._tmux("kill-server")
        try:
            until(lambda: not Path(f"/proc/{self._server}").exists(), "the tmux server does not end")
        finally:
            self._made.cleanup()

    def text(self, colours: bool = False) -> str:
        """What the screen shows now, blanks at the ends of lines left out; `colours`: with the codes that set them."""
        return self._tmux("capture-pane", "-p", *(["-e"] if colours else []))

    def keys(self, *names: str) -> None:
        """Press keys, by tmux's names: `1`, `Enter`, `C-c`, `Escape`."""
        self._tmux("send-keys", *names)

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def told(self, name: str) -> str:
        """What tmux says of the window: `pane_pid`, `alternate_on`, `cursor_flag`, `pane_dead_status`."""
        return self._tmux("display-message", "-p", f"#{{{name}}}").strip()

    def until(self, holds: Callable[[str], bool], patience_s: float = PATIENCE_S) -> str:
        """Wait until it holds of the text; returns the text."""
        shown = ""

        def held() -> bool:
            nonlocal shown
            shown = self.text()
            return holds(shown)

        until(held, lambda: f"the screen after {patience_s:g} s:\n{shown}", patience_s)
        return shown

    def until_shown(self, *words: str, patience_s: float = PATIENCE_S) -> str:
        """Wait until all of these are on the screen, wherever lines break; returns the text."""
        return self.until(lambda text: all(word in flat(text) for word in words), patience_s)

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-f", os.devnull, "-S", f"{self._made.name}/socket", *words]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, f"tmux {words[0]}: {done.stderr}"
        return done.stdout


def flat(text: str) -> str:
    """The text as if lines were not broken."""
    return " ".join(text.split())


def until(happened: Callable[[], bool], otherwise: str | Callable[[], str], patience_s: float = PATIENCE_S) -> None:
    """Look again and again; fail with `otherwise` if it does not happen."""
    pause, end = threading.Event(), monotonic() + patience_s
    while not happened():
        assert monotonic() < end, otherwise if isinstance(otherwise, str) else otherwise()
        pause.wait(POLL_S)
