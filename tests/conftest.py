"""What every test may ask for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def run_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty run directory on shared memory, named to this process and its children by KVSCOPE_RUN_DIR."""
    shared_memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="kvscope-", dir=shared_memory if shared_memory.is_dir() else None) as made:
        monkeypatch.setenv("KVSCOPE_RUN_DIR", made)
        yield Path(made)
