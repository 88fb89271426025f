"""Whether incidents can be saved: asked again and again, so that it is known before one has to be."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kvscope.incidents.folder import Folder

EVERY_S = 1.0
"""Between two looks at the folder."""
PATIENCE_S = 10.0
"""A look that takes longer is one that may never come back."""


class Watch:
    """Looks at the folder in a thread of its own. A disk may hang, as one of another host does when that is away:
    whoever asks how it is does not wait for it."""

    def __init__(self, folder: Folder, say: Callable[[str], None]) -> None:
        self._folder, self._say, self._lock, self._stop = folder, say, threading.Lock(), threading.Event()
        self._seen, self._failure, self._lasting = "", "", False
        self._looking_since = 0.0
        self._said = ""
        self._thread = threading.Thread(target=self._run, name="kvscope-watching", daemon=True)
        self._thread.start()

    @property
    def fault(self) -> str:
        """What keeps incidents from being saved; empty where nothing is known to."""
        since = self._looking_since
        hangs = since and time.monotonic() - since > PATIENCE_S
        reason = "the disk does not answer" if hangs else self._seen or self._failure
        return f"incidents cannot be saved into {self._folder.path}: {reason}" if reason else ""

    def failed(self, reason: str, lasting: bool = False) -> bool:
        """An incident could not be saved, or not whole; whether that is news. `lasting`: until one can be; else until
        the folder can be written to."""
        with self._lock:
            news = reason != self._failure
            self._failure, self._lasting = reason, lasting
            return news

    def saved(self) -> None:
        """An incident was saved whole."""
        with self._lock:
            self._failure = ""

    def close(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._look()
            self._stop.wait(EVERY_S)

    def _look(self) -> None:
        failure = self._failure
        self._looking_since = time.monotonic()
        self._seen = self._folder.looked_at()
        over = bool(failure) and not self._lasting and not self._seen and not self._folder.tried()
        self._looking_since = 0.0
        with self._lock:
            if over and self._failure == failure:
                self._failure = ""
        self._tell()

    def _tell(self) -> None:
        """Say what has changed since it was looked at last; of incidents that failed, each was told by itself."""
        if self._seen != self._said:
            fault = f"incidents cannot be saved into {self._folder.path}: {self._seen}"
            self._say(f"kvscope: {fault if self._seen else f'incidents can be saved into {self._folder.path} again'}")
        self._said = self._seen
