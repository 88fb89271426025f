"""docs/parquet.md says of the tables what the code says."""

from __future__ import annotations

from kvscope.model.graph import ALL_NODES
from kvscope.model.stages import STAGES
from kvscope.sources.parquet.columns import REQUESTS, TABLES
from kvscope.sources.parquet.document import BEGIN, END, tables

from .tree import ROOT

PAGE = ROOT / "docs" / "parquet.md"


def test_the_page_holds_the_tables_of_the_code() -> None:
    told = PAGE.read_text().split(BEGIN)[1].split(END)[0].strip()
    assert told == tables().strip(), "write it anew: python -m kvscope.sources.parquet.document"


def test_every_column_is_on_the_page_and_says_what_it_is() -> None:
    page = PAGE.read_text()
    for table in TABLES:
        assert len(set(table.names)) == len(table.names)
        for column in table.columns:
            assert f"`{column.name}`" in page
            assert column.meaning
            assert column.unit == "ns" or not column.name.endswith("_ns")


def test_a_request_has_a_column_for_every_stage_and_moment() -> None:
    families = {f"{family}_{stage.name}_ns" for stage in STAGES for family in ("exposed", "hidden")}
    assert families <= set(REQUESTS.names)
    assert len([name for name in REQUESTS.names if name.endswith("_at_ns")]) == len(ALL_NODES) - 2
