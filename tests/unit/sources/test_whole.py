"""Recordings are gone through where they lie; what cannot be is read at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.model.errors import InputError
from kvscope.sources.bytime import Loaded
from kvscope.sources.indexed import Indexed
from kvscope.sources.lines import write_jsonl
from kvscope.sources.opening import open_all
from kvscope.sources.whole import open_whole

REAL = Path(__file__).parents[3] / "docs" / "pictures" / "push-early.kvs"


def kinds(*paths: Path, run_dir: Path | None = None) -> list[type]:
    past = open_whole(paths, run_dir, lambda share: None)
    past.close()
    return [type(source) for source in past.sources]


def test_a_recording_is_not_held() -> None:
    assert kinds(REAL) == [Indexed]


def test_what_is_named_beside_lines_or_rings_is_read_with_them(tmp_path: Path) -> None:
    lines = tmp_path / "router.jsonl"
    lines.write_text("\n".join(write_jsonl(open_all([REAL], None).events)) + "\n")
    assert kinds(lines) == [Loaded]
    assert kinds(REAL, lines) == [Loaded]
    assert kinds(REAL, run_dir=tmp_path) == [Loaded]


def test_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no"):
        kinds(tmp_path / "nowhere.kvs")
