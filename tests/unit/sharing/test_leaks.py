"""Of a recording in which everything is marked, no mark is in what is given away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscope.probe.ids import DROP, HASH, KEEP, Ids
from kvscope.probe.recording import MarkPart, ProcessPart, TextsPart, parts
from kvscope.sharing import rows, telling
from kvscope.sharing.names import Names
from kvscope.sharing.share import Shared, Wishes, share

from .marked import Marks, hashes, leaked, marked, unpacked

KEY, OTHER = b"k" * 32, b"o" * 32


def given_away(folder: Path, seed: int, wishes: Wishes) -> tuple[Path, Path, Marks, Shared]:
    path, out = folder / "it.kvs", folder / "out.kvs"
    marks = marked(path, seed)
    return path, out, marks, share([path], out, wishes, force=True)


@given(st.integers(0, 10**9), st.sampled_from((None, KEY)), st.sampled_from((HASH, DROP)))
@settings(max_examples=25, deadline=None)
def test_nothing_of_a_text_is_left(
    tmp_path_factory: pytest.TempPathFactory, seed: int, secret: bytes | None, mode: str
) -> None:
    path, out, marks, _ = given_away(tmp_path_factory.mktemp("leak"), seed, Wishes(mode, secret))
    assert leaked(path, marks), "there is something to find"
    assert leaked(out, marks) == []
    raw = unpacked(out)
    assert not [digest for digest in hashes(path) if digest in raw]


def as_it_was(*words: Any) -> Any:
    """What a slip would do: let what it was given through."""
    return words[-1]


SLIPS: dict[str, tuple[object, str, object]] = {
    "words that nobody knows": (telling, "known", lambda kind, text, *_: text),
    "names of engines": (Names, "of", lambda self, kind, text: "1" if kind == "pid" else text),
    "ids": (Ids, "name", as_it_was),
    "keys of ids": (Ids, "key", lambda self, low: low * 2),
    "keys of words": (Names, "key", lambda self, kind, low: low * 2),
    "values": (rows, "_KEPT", np.ones_like(rows._KEPT)),
    "numbers": (telling.Telling, "_number", lambda self, field, number, shift: number),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_what_would_slip_through_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slip: str) -> None:
    if slip == "names of engines":
        monkeypatch.setattr(Names, "number", lambda self, kind, text: 1)
    monkeypatch.setattr(*SLIPS[slip])
    path, out, marks, _ = given_away(tmp_path, 2, Wishes())
    raw = unpacked(out)
    assert leaked(out, marks) or [digest for digest in hashes(path) if digest in raw]


def test_what_is_kept_is_kept_and_no_more(tmp_path: Path) -> None:
    _, out, marks, _ = given_away(tmp_path, 3, Wishes(KEEP, keep=("model",)))
    kept = unpacked(out)
    with open(tmp_path / "it.kvs", "rb") as file:
        found = list(parts(file))
    models = {repr(part.info["started"]["model"]) for part in found if isinstance(part, ProcessPart)}
    texts = [text for part in found if isinstance(part, TextsPart) for _, text in part.pairs[:4]]
    assert all(model.encode() in kept for model in models)
    assert any(text.encode() in kept for text in texts)
    allowed_words = "".join((*models, *texts))
    assert [piece for piece in leaked(out, marks) if str(piece) not in allowed_words] == []


def test_the_time_of_day_is_all_that_is_kept_with_it(tmp_path: Path) -> None:
    _, out, marks, _ = given_away(tmp_path, 11, Wishes(keep_time=True))
    assert marks.times
    assert set(leaked(out, marks)) <= {*marks.times}
    assert {*marks.times} <= set(leaked(out, marks))
    _, out, marks, _ = given_away(tmp_path, 11, Wishes())
    assert leaked(out, marks) == []


def test_another_key_makes_another_recording(tmp_path: Path) -> None:
    found = []
    for secret in (KEY, KEY, OTHER, None, None):
        _, out, _, _ = given_away(tmp_path, 5, Wishes(HASH, secret))
        found.append(out.read_bytes())
    assert found[0] == found[1]
    assert len({*found[1:]}) == 4


def test_what_was_left_out_is_told(tmp_path: Path) -> None:
    _, out, _, shared = given_away(tmp_path, 7, Wishes())
    assert {"later", "more"} < shared.undecided
    assert shared.unknown == 3 * 4
    with open(out, "rb") as file:
        assert not any(isinstance(part, MarkPart) for part in parts(file))
