"""The guard around every tracepoint: off costs one check, and nothing it does can reach the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvscope.probe.recorder import fault, here


def tracepoint(observe: Callable[..., None]) -> Callable[..., None]:
    """Wrap `observe` so that no exception leaves it; each is counted, and too many switch the probe off.

    All attribute access on the engine's objects belongs inside: the added lines pass bare names only.
    """

    def guarded(*args: Any) -> None:
        if here.control[0]:
            try:
                observe(*args)
            except Exception as error:  # noqa: BLE001 - the engine must never see it
                fault(error)

    guarded.__name__ = observe.__name__
    guarded.__doc__ = observe.__doc__
    guarded.__wrapped__ = observe  # type: ignore[attr-defined]
    return guarded
