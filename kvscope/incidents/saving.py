"""One incident while it is saved, in a thread of its own: what memory holds of before, then what comes."""

from __future__ import annotations

import errno
import json
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kvscope.analysis.render.amounts import duration, quantity
from kvscope.incidents.account import MOST_ALSO, Cause, Span, account
from kvscope.incidents.folder import RECORDING, STACKS, Folder, account_written, reason_of
from kvscope.incidents.memory import BLOCK_S, SECOND, Memory
from kvscope.incidents.splicing import Splice
from kvscope.incidents.watching import Watch
from kvscope.model.counting import count
from kvscope.model.errors import InputError
from kvscope.probe.ids import Ids
from kvscope.probe.ring import boot_id, clock_pair
from kvscope.sources.output import Output

LATE_S = 2 * BLOCK_S
"""How long what was read is waited for beyond its time, where reading has come to a stop."""


class Stacks(Protocol):
    """Samples, while it is entered."""

    @property
    def samples(self) -> int: ...

    @property
    def faults(self) -> list[str]: ...


Sample = Callable[[Path], AbstractContextManager[Stacks]]
"""Given the file to write"""


@dataclass
class _State:
    """What has become of it so far."""

    complete: bool = False
    ended_by: str = "it was not ended"
    also: list[Cause] = field(default_factory=list)
    also_count: int = 0
    until: int = 0
    """When the last block was read."""
    stacks: dict[str, Any] | None = None


class Saving:
    """Saves until `span.end`. What happens meanwhile joins it."""

    def __init__(
        self,
        cause: Cause,
        span: Span,
        memory: Memory,
        folder: Folder,
        watch: Watch,
        say: Callable[[str], None],
        sample: Sample | None = None,
        ids: Ids | None = None,
        **told: object,
    ) -> None:
        """Makes its folder. OSError, InputError: it cannot be made. `ids`: how request ids are written; None: as they
        are. `told`: further fields of its account"""
        self.cause, self._span, self._memory, self._folder, self._say = cause, span, memory, folder, say
        self._watch, self._sample, self._ids, self._told = watch, sample, ids, told
        monotonic_ns, realtime_ns, _ = clock_pair()
        self._wall_ns = realtime_ns - monotonic_ns
        self.path = folder.begin(cause.slug, (cause.at + self._wall_ns) / 1e9)
        self._state, self._lock, self._closing = _State(), threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="kvscope-saving")
        self._begun = threading.Event()
        self.failed = ""
        """Why it is not whole; empty where it is, or may still be."""
        self.whole = False
        """Whether all that was asked for is written."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def take(self, cause: Cause) -> bool:
        """Let another cause be told of with this one; False where it is too late for that."""
        with self._lock:
            if self._state.complete or self._closing.is_set() or cause.at >= self._span.end:
                return False
            self._state.also_count += 1
            if len(self._state.also) < MOST_ALSO:
                self._state.also.append(cause)
            return True

    @property
    def until(self) -> int:
        """When it is to be whole, ns since 1970."""
        return self._span.end + self._wall_ns

    def begun(self, timeout_s: float) -> bool:
        """Wait until something of it is written, or cannot be, so long at most; whether it can, as far as is known."""
        self._begun.wait(timeout_s)
        return not self.failed

    @property
    def ended(self) -> bool:
        """Whether it came to an end as it was to, if it came to one: the quota's counts, too."""
        return self._state.complete

    @property
    def over(self) -> bool:
        """Whether all is written."""
        return not self._thread.is_alive()

    def close(self) -> None:
        """End it with what there is. What memory holds by now has to be packed."""
        self._closing.set()
        self._memory.wake()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._save()
        except OSError as error:
            self._fail(reason_of(error))
        except InputError as error:  # what it writes was removed
            self._fail(str(error))
        except Exception as error:  # noqa: BLE001 - a thread's traceback is for nobody, and serving goes on
            self._fail(" ".join(f"{type(error).__name__}: {error}".split()))
        finally:
            self._begun.set()

    def _fail(self, reason: str) -> None:
        self.failed = reason if self.path.exists() else "its folder was removed while it was saved"
        kept = "what is in it until then can be read" if self._folder.tidied(self.path) else "nothing of it is kept"
        self._watch.failed(self.failed)
        self._say(f"kvscope: {self.path} could not be saved whole: {self.failed}; {kept}")

    def _save(self) -> None:
        with Output(self.path / RECORDING, force=False) as file:
            splice = Splice(file, self._span.stretch, self._ids)
            self._write_account(splice, file.size)
            self._begun.set()
            sampling = self._begin_sampling()
            try:
                self._copy(splice, file)
                splice.end()
                file.flush()  # what does not fit on the disk is to be known before it is called whole
            finally:
                sampling()
            with self._lock:
                self._state.complete = True
            self._write_account(splice, file.size)
        if self.failed:
            self._watch.failed(self.failed, lasting=True)
        else:
            self._watch.saved()
            self.whole = True
        self._say(self._sentence(splice))

    def _copy(self, splice: Splice, file: Output) -> None:
        """Write blocks as long as they are of this incident's time, and there is room."""
        state, number = self._state, 0
        while True:
            closing, late = self._closing.is_set(), time.monotonic_ns() >= self._span.end + LATE_S * SECOND
            for block in self._memory.since(number):
                number = block.number
                if block.until <= self._span.begin:
                    continue
                if not self._folder.make_room(block.size, self.path):
                    state.ended_by = "the quota left no room for more"
                    self.failed = f"one takes more than --quota, {quantity(self._folder.quota, 'B')}, and was cut short"
                    return
                state.until = block.until
                splice.add(block)
                file.check()
            if closing or late or state.until >= self._span.end:
                state.ended_by = "serving ended" if closing else "nothing more was read" if late else "its time"
                return
            self._memory.wait(number, 1.0)

    def _begin_sampling(self) -> Callable[[], None]:
        """Sample in a thread of its own: beginning to takes a while. Returns what waits for its end."""
        if self._sample is None:
            return lambda: None
        enough = threading.Event()
        thread = threading.Thread(target=self._sampled, args=(self._sample, enough), name="kvscope-stacks")
        thread.start()

        def end() -> None:
            enough.set()
            thread.join()

        return end

    def _sampled(self, sample: Sample, enough: threading.Event) -> None:
        begun = time.monotonic_ns()
        try:
            with sample(self.path / STACKS) as stacks:
                self._state.stacks = {"file": STACKS, "begun_ns": time.monotonic_ns()}
                enough.wait(max(self._span.end - begun, 0) / SECOND)
                self._state.stacks["ended_ns"] = time.monotonic_ns()
            self._state.stacks |= {"samples": stacks.samples, "faults": list(stacks.faults)}
        except (InputError, OSError) as error:
            self._state.stacks = {**(self._state.stacks or {}), "faults": [str(error)]}

    def _write_account(self, splice: Splice, size: int) -> None:
        state, held = self._state, self._memory.held
        with self._lock:
            told = account(
                self.cause,
                state.also,
                state.also_count,
                self._span,
                splice.span,
                {"boot_id": boot_id(), "wall_ns": self._wall_ns},
                {"events": splice.events, "lost": splice.lost, "bytes": size, "dropped_before": held.dropped},
                splice.processes,
                complete=state.complete,
                ended_by=state.ended_by,
                stacks=state.stacks,
                **self._told,
            )
        try:
            account_written(self.path, json.dumps(told, indent=1, default=str) + "\n")
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise

    def _sentence(self, splice: Splice) -> str:
        first, last = splice.span or (0, 0)
        short = "" if self._state.ended_by == "its time" else f", then {self._state.ended_by}"
        faults = (self._state.stacks or {}).get("faults") or []
        stacks = f"; stacks are missing: {'; '.join(faults)}" if faults else ""
        events = f"{count(splice.events, 'event')} of {duration(last - first)}" if splice.events else "no event"
        return f"{self.path}: {self.cause.text}, {events}{short}{stacks}"
