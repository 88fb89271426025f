"""The project's own files, as the contract tests see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "kvscope"
FOLDERS = ("kvscope", "tests", "benchmarks", "patches", "docs", "alerts", "dashboards", "requirements", ".ci")


def modules() -> list[str]:
    """Dotted names of all modules of the package, in order."""
    return sorted(map(dotted, PACKAGE.rglob("*.py")))


def dotted(path: Path) -> str:
    """`kvscope/a/__init__.py` -> `kvscope.a`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def python_files() -> list[Path]:
    """Every Python file of the project."""
    return [path for path in text_files() if path.suffix == ".py"]


def text_files() -> list[Path]:
    """Every file of the project that a person writes or reads as text."""
    return sorted(path for path in files() if readable(path))


def files() -> Iterator[Path]:
    """Every file of the project, caches and environments aside."""
    yield from (path for path in ROOT.iterdir() if path.is_file())
    for folder in FOLDERS:
        yield from (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def readable(path: Path) -> bool:
    """Whether the file is text."""
    return b"\0" not in path.read_bytes()[:4096]
