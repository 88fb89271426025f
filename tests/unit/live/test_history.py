"""What the requests of the last while name is known, and no more than that for long."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvscope.core.critical_path import split
from kvscope.core.stream import SECOND
from kvscope.live import history
from kvscope.live.history import History, when
from kvscope.model.splits import Splits

from .fleet import events, stretch


def named(parts: list[Splits]) -> set[int]:
    return {key for part in parts for key in (*part.request.tolist(), *part.peer_request.tolist()) if key}


def test_texts_of_what_is_kept_are_known_and_those_of_the_rest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "SMALL", 4)
    whole = split(events(stretch("early", 0, 60)))
    none = replace(whole.select(np.empty(0, np.int64)), texts={})
    kept = History(none, 5 * SECOND)
    most = 0
    for second in range(60):
        now = (second + 1) * SECOND
        part = whole.select((when(whole) >= now - SECOND) & (when(whole) < now))
        texts = {key: whole.texts[key] for key in named([part])}
        kept.add([Splits(**{**vars(part), "texts": texts})], none, now)
        window = kept.window(now - 5 * SECOND, none)
        assert named([window]) <= window.texts.keys()
        most = max(most, len(window.texts))
    assert most < len(whole.texts) / 2


def test_a_caller_s_texts_are_its_own() -> None:
    whole = split(events(stretch("early", 0, 3)))
    none = replace(whole.select(np.empty(0, np.int64)), texts={})
    kept = History(none, 5 * SECOND)
    kept.add([], whole, 3 * SECOND)
    kept.window(0, none).texts.clear()
    assert kept.window(0, none).texts == whole.texts
