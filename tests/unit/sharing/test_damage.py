"""Whatever a file holds, it is shared as far as it is whole, or refused in a sentence; never is it a fault of ours."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscope.model.errors import InputError
from kvscope.probe.recording import SAID, Writer
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE
from kvscope.sharing import allowed
from kvscope.sharing.share import Wishes, share
from kvscope.sources.opening import open_all
from kvscope.sources.records import RECORD

REAL = Path("docs/pictures/pull.kvs")
NUMBERS = st.integers(-(2**70), 2**70) | st.floats()
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=8),
    lambda deeper: st.lists(deeper, max_size=3) | st.dictionaries(st.text(max_size=4), deeper, max_size=3),
    max_leaves=5,
)


def fields(table: allowed.Table) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(sorted(table)) | st.text(max_size=4), JSON, max_size=8)


@given(st.integers(0, 10**9))
@settings(max_examples=10, deadline=None)
def test_a_damaged_file(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    chosen, raw = random.Random(seed), bytearray(REAL.read_bytes())
    for _ in range(chosen.randint(1, 5)):
        at = chosen.randrange(len(raw))
        if chosen.random() < 0.6:
            raw[at] ^= 1 << chosen.randrange(8)
        elif chosen.random() < 0.6:
            del raw[at : at + chosen.randrange(3000)]
        else:
            del raw[at + 1 :]
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "it.kvs").write_bytes(raw)
    try:
        share([folder / "it.kvs"], folder / "out.kvs", Wishes())
    except InputError:
        assert not (folder / "out.kvs").exists()
        return
    assert len(open_all([folder / "out.kvs"], None).events) == len(open_all([folder / "it.kvs"], None).events)


@given(fields(allowed.HEAD), fields(allowed.PROCESS), fields(allowed.STARTED), st.sampled_from((None, b"k" * 32)))
@settings(max_examples=60, deadline=None)
def test_strange_things_that_are_said(
    tmp_path_factory: pytest.TempPathFactory,
    head: dict[str, Any],
    info: dict[str, Any],
    started: dict[str, Any],
    secret: bytes | None,
) -> None:
    folder = tmp_path_factory.mktemp("strange")
    right = {name: of() for name, of in SAID.items() if not isinstance(info.get(name, of()), of)}
    event = np.zeros(1, RECORD)
    event["sequence"], event["t"], event["moment"], event["leg"] = 1, 10**12, MOMENT_CODE["started"], LEG_CODE["engine"]
    with open(folder / "it.kvs", "wb") as file:
        writer = Writer(file)
        writer.head(head)
        writer.process(0, info | right | {"started": started})
        writer.process(1, {"boot_id": "boot", "pid": 1, "start_ticks": 1})
        writer.records(0, 0, event.tobytes())
        writer.end({})
    share([folder / "it.kvs"], folder / "out.kvs", Wishes(secret=secret, keep_time=True))
    assert open_all([folder / "out.kvs"], None).events.processes
