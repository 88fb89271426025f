"""What every test may ask for, and the order they run in: what is fast comes first."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ORDER = ("unit", "contract", "integration", "lab")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by folder. The sort is stable: within one, pytest's own order holds."""
    here = Path(__file__).parent
    items.sort(key=lambda item: ORDER.index(item.path.relative_to(here).parts[0]))


@pytest.fixture(scope="session", autouse=True)
def _no_traces() -> Iterator[None]:
    """What a test records in passing does not go where this user's engines keep their rings."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="kvscope-tests-") as made:
        patch.setenv("KVSCOPE_RUN_DIR", made)
        yield


@pytest.fixture
def run_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty run directory on shared memory, named to this process and its children by KVSCOPE_RUN_DIR."""
    shared_memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="kvscope-", dir=shared_memory if shared_memory.is_dir() else None) as made:
        monkeypatch.setenv("KVSCOPE_RUN_DIR", made)
        yield Path(made)
