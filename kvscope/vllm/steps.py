"""Engine steps as records: one for each step that ran a forward, the others folded."""

from __future__ import annotations

from multiprocessing.util import Finalize

from kvscope.probe import recorder
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, UNKNOWN

STEP = MOMENT_CODE["step"]
ENGINE = LEG_CODE["engine"]

# An idle engine that waits for a peer spins through a thousand empty steps a second: a fold is closed
# at least this often, so that a reader is never more than this far behind. When no step need follow,
# whoever knows that calls `flush`.
FOLD_NS = 500_000_000


class StepFold:
    """Writes `step` records, merging consecutive steps that ran no forward into one."""

    def __init__(self) -> None:
        self._begin = 0
        self._end = 0
        self._number = 0
        self._connector_ns = UNKNOWN
        self._count = 0
        self._at_exit: object = None

    def add(
        self,
        number: int,
        begin: int,
        end: int,
        requests: int,
        tokens: int,
        connector_ns: int = UNKNOWN,
    ) -> None:
        """Account one step; times in ns, `connector_ns` UNKNOWN where this thread cannot tell."""
        if tokens:
            self.flush()
            recorder.record(
                STEP,
                ENGINE,
                None,
                end,
                begin,
                requests,
                tokens,
                connector_ns,
                0,
                step=number & 0xFFFFFFFF,
            )
            return
        if not self._count:
            self._begin, self._connector_ns = begin, connector_ns
            # Not atexit: a process that multiprocessing forked ends without it.
            self._at_exit = self._at_exit or Finalize(None, self.flush, exitpriority=0)
        elif connector_ns != UNKNOWN:
            self._connector_ns += connector_ns
        self._count += 1
        self._end, self._number = end, number
        if end - self._begin > FOLD_NS:
            self.flush()

    def flush(self) -> None:
        """Write the steps folded so far, if any."""
        if self._count:
            recorder.record(
                STEP,
                ENGINE,
                None,
                self._end,
                self._begin,
                0,
                0,
                self._connector_ns,
                self._count,
                step=self._number & 0xFFFFFFFF,
            )
            self._count = 0
