"""The tables of a Parquet folder as text, for docs/parquet.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvscope.model.stages import STAGES
from kvscope.sources.parquet.columns import NODES_AT, REQUESTS, TABLES, TYPE, Column, Table

BEGIN, END = "<!-- tables: made from the code, checked by a test -->", "<!-- end of tables -->"
FAMILIES = ("exposed_", "hidden_")
"""What the columns of stages begin with."""


def tables() -> str:
    """Markdown: every table with its columns."""
    return "\n".join(_table(table) for table in TABLES)


def _table(table: Table) -> str:
    plain = [column for column in table.columns if table is not REQUESTS or not _in_family(column)]
    head = f"### `{table.file}`: {table.meaning}\n"
    found = [head, _rows(("column", "type", "unit", "meaning"), map(_told, plain))]
    if table is REQUESTS:
        found += [
            "For each stage two columns: how much of it lay on the path, and how much behind it. `BIGINT`, ns.\n",
            _rows(("columns", "class", "meaning"), _stages()),
            "When each moment was, as the path sees it (of several alike, the one that counts). `BIGINT`, ns.\n",
            _rows(("column", "meaning"), ((f"`{each.name}`", each.meaning) for each in _moments())),
        ]
    return "\n".join(found)


def _in_family(column: Column) -> bool:
    return column.name.startswith(FAMILIES) or column.name.endswith("_at_ns")


def _told(column: Column) -> tuple[str, ...]:
    return f"`{column.name}`", TYPE[column.kind], column.unit, column.meaning


def _stages() -> Iterable[tuple[str, ...]]:
    for stage in STAGES:
        names = ", ".join(f"`{family}{stage.name}_ns`" for family in FAMILIES)
        yield names, str(stage.cls), stage.meaning


def _moments() -> Sequence[Column]:
    return [column for column in REQUESTS.columns if column.name.endswith("_at_ns")]


def _rows(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


assert len(_moments()) == len(NODES_AT)

if __name__ == "__main__":
    print(tables())
