"""What documents say of the code, and of each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .tree import PACKAGE, ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
VARIABLE = re.compile(r"\bKVSCOPE(?:_[A-Z]+)*\b")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def test_every_environment_variable_is_documented_and_no_other() -> None:
    read = {
        found
        for path in PACKAGE.rglob("*.py")
        for found in re.findall(rf'["`]({VARIABLE.pattern})\b', path.read_text())
    }
    assert read == set(VARIABLE.findall((DOCS / "environment.md").read_text()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    gone = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not gone


def test_every_document_is_in_the_index() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / link).resolve() for link in LINK.findall(index.read_text())}
    assert {path for path in DOCS.rglob("*.md") if path != index} <= linked
