"""What documents say of recordings: how files of them are called, and what is in those of this tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvscope.core.critical_path import split
from kvscope.sources import open_sources

from .test_documents import DOCS, PAGES
from .tree import PACKAGE, ROOT

OTHERWISE = re.compile(r"\b(?:incident|run|pod|now|shared|host\w*)\.kvscope\b")


@pytest.mark.parametrize("path", [*PAGES, *PACKAGE.rglob("*.py")], ids=lambda path: str(path.relative_to(ROOT)))
def test_recordings_are_called_kvs(path: Path) -> None:
    assert not OTHERWISE.findall(path.read_text())


@pytest.mark.parametrize(
    ("page", "said", "recording"),
    [
        (ROOT / "README.md", r"kvscope report on (\d+) requests of a real pair", "push-early.kvs"),
        (DOCS / "profile.md", r"push pair on two cores under (\d+) requests", "push-profile"),
        (DOCS / "dashboards.md", r"\(`pull\.kvs`\), (\d+) requests each", "pull.kvs"),
    ],
)
def test_captions_count_what_is_in_the_recording(page: Path, said: str, recording: str) -> None:
    (found,) = re.findall(said, page.read_text())
    assert int(found) == len(split(open_sources([DOCS / "pictures" / recording]).events))
