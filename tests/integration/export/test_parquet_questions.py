"""The questions of docs/parquet.md, asked in DuckDB of real recordings: answers are the report's own."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from kvscope.analysis.bands import members, nearest_rank
from kvscope.analysis.holding import RESERVED, held_by_engine
from kvscope.core.critical_path import split
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGES, Class
from kvscope.probe.vocabulary import MOMENT_CODE
from kvscope.sources.opening import open_all
from kvscope.sources.parquet.columns import TABLES, TYPE

from ...unit.core.unusual import failed_and_aborted, pulled, refused
from .trips import PICTURES, report, tables

PAGE = PICTURES.parent / "parquet.md"
QUESTIONS = dict(re.findall(r"### ([^\n]+\?)\n(?:(?!###).)*?```sql\n(.*?)```", PAGE.read_text(), re.S))
RECORDINGS = ("pull", "push-early", "push-sequential")
Rows = list[dict[str, Any]]


class Asked:
    """A recording, what kvscope says of it, and its tables."""

    def __init__(self, recording: Path, folder: Path) -> None:
        self.document = json.loads(report(recording))
        self.events = open_all([recording], None).events
        self.splits: Splits = split(self.events)
        self.folder = tables(folder, recording)

    @property
    def summary(self) -> dict[str, Any]:
        return dict(self.document["summary"])

    @property
    def timed(self) -> list[dict[str, Any]]:
        return [each for each in self.document["requests"] if each["ttft_ns"] is not None]

    def ask(self, sql: str) -> Rows:
        with duckdb.connect() as connection:
            found = connection.execute(sql)
            names = [column[0] for column in found.description or ()]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


@pytest.fixture(scope="module", params=RECORDINGS)
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    return Asked(PICTURES / f"{request.param}.kvs", tmp_path_factory.mktemp("made") / "tables")


def slowest(asked: Asked, rows: Rows) -> None:
    wanted = sorted(asked.timed, key=lambda each: -each["ttft_ns"])[:5]
    assert list(dict.fromkeys(row["request"] for row in rows)) == [each["request"] for each in wanted]
    for each in wanted:
        found = {row["stage"]: row["ms"] for row in rows if row["request"] == each["request"]}
        assert found == {f"exposed_{stage}_ns": ns / 1e6 for stage, ns in each["exposed"].items()}


def pairs(asked: Asked, rows: Rows) -> None:
    bands = {band["name"]: band["percentile_ns"] for band in asked.summary["bands"]}
    (pair,) = asked.summary["pairs"]
    assert rows == [
        {
            "prefill_engine": pair["prefill"],
            "decode_engine": pair["decode"],
            "requests": pair["requests"],
            "ttft_ns": [bands["p50"], bands["p95"], bands["p99"]],
        }
    ]


def around_p95(asked: Asked, rows: Rows) -> None:
    band = next(band for band in asked.summary["bands"] if band["name"] == "p95")
    (row,) = rows
    assert row["requests"] == band["requests"]
    assert row["ttft_ms"] == pytest.approx(band["mean_ns"] / 1e6, rel=1e-12)
    for cls in Class:
        share = row[str(cls).replace(" ", "_")]
        assert share == pytest.approx(band["classes"][str(cls)] / band["mean_ns"], rel=1e-12)
    assert math.isclose(sum(row[str(cls).replace(" ", "_")] for cls in Class), 1)


def by_prompt(asked: Asked, rows: Rows) -> None:
    assert sum(row["requests"] for row in rows) == len(asked.timed)
    for row in rows:
        mine = [each for each in asked.timed if each["prompt_tokens"] // 1000 * 1000 == row["tokens_from"]]
        assert row["requests"] == len(mine)
        for name, bound in (("coordination_ms", 0), ("at_most_ms", 1)):
            assert row[name] == pytest.approx(np.mean([each["coordination_ns"][bound] for each in mine]) / 1e6)


def registered(asked: Asked, rows: Rows) -> None:
    overlap = asked.summary["overlap"]
    (row,) = rows
    assert (row["pushes"], row["registered_before_staged"]) == (overlap["pushes"], overlap["registered_before_staged"])
    slack = overlap["slack"].get("registration")
    assert row["slack_ms"] == (slack["p50_ns"][0] / 1e6 if slack else None)
    assert row["least_slack_ms"] == (slack["least_ns"] / 1e6 if slack else None)


def connector(asked: Asked, rows: Rows) -> None:
    told = asked.summary["price"]["connector"]
    assert [(row["engine"], row["steps"]) for row in rows] == [(each["engine"], each["steps"]) for each in told]
    assert [row["share"] for row in rows] == pytest.approx([each["share"] for each in told])


def failures(asked: Asked, rows: Rows) -> None:
    found: dict[tuple[str, str, str], int] = {}
    for each in asked.document["requests"]:
        if each["failure"]:
            key = each["failure"], each["shape"], each["state"]
            found[key] = found.get(key, 0) + 1
    assert {(row["failure"], row["shape"], row["state"]): row["requests"] for row in rows} == found


def reserved(asked: Asked, rows: Rows) -> None:
    held = held_by_engine(asked.splits, RESERVED, {})
    assert {row["decode_engine"]: row["requests"] for row in rows} == {
        name: each.requests for name, each in held.items()
    }
    for row in rows:
        assert row["block_s"] == pytest.approx(held[row["decode_engine"]].block_s)
    total = sum(row["block_s"] or 0 for row in rows)
    assert total == pytest.approx(asked.summary["price"]["reserved"]["block_s"] or 0)


def before_and_after(asked: Asked, rows: Rows) -> None:
    timed = asked.timed
    origins = [each["origin_ns"] for each in asked.document["requests"]]
    middle = (min(origins) + max(origins)) / 2
    for row in rows:
        mine = [each for each in timed if (each["origin_ns"] >= middle) is row["after"]]
        ttft = sorted(each["ttft_ns"] for each in mine)
        assert row["requests"] == len(mine) > 0
        assert row["p50_ms"] == ttft[nearest_rank(len(ttft), 50)] / 1e6
        assert row["p95_ms"] == ttft[nearest_rank(len(ttft), 95)] / 1e6
    assert [row["after"] for row in rows] == [False, True]


def transfers(asked: Asked, rows: Rows) -> None:
    told = asked.summary["transfers"]
    (row,) = rows
    assert (row["transfers"], row["bytes"]) == (told["inferred_from"], told["bytes_total"])
    known = [math.inf if rate is None else rate for rate in told["rate_p50"]]
    assert [row["at_least_bytes_per_s"], row["at_most_bytes_per_s"]] == pytest.approx(known)


def one_request(asked: Asked, rows: Rows) -> None:
    wanted = max(asked.timed, key=lambda each: each["ttft_ns"])
    stamps = next(each for each in asked.splits if each.request == wanted["request"]).stamps
    seen = {(row["moment"], round(row["ms"] * 1e6)) for row in rows}
    assert {(each.moment, each.t - wanted["origin_ns"]) for each in stamps if each.leg != "router"} <= seen
    assert [row["ms"] for row in rows] == sorted(row["ms"] for row in rows)


def loads(asked: Asked, rows: Rows) -> None:
    told = asked.events.rows[asked.events.rows["moment"] == MOMENT_CODE["load"]]
    assert len({(row["engine"], row["second"]) for row in rows}) == len(rows) > 0
    assert min(row["free_blocks"] for row in rows) == told["values"][:, 3].min()
    assert max(row["waiting"] for row in rows) == told["values"][:, 0].max()


def trust(asked: Asked, rows: Rows) -> None:
    tally = asked.summary["condition"]["tally"]
    assert sum(row["events"] for row in rows) == len(asked.events)
    assert (sum(row["lost"] for row in rows), sum(row["earlier"] for row in rows)) == (tally["lost"], tally["earlier"])


AROUND = "What were the requests around p95 waiting for?"
CHECKS: dict[str, Callable[[Asked, Rows], None]] = {
    "Which requests were slowest, and where did their time go?": slowest,
    "What are p50, p95 and p99 of TTFT, by pair of engines?": pairs,
    AROUND: around_p95,
    "Does coordination grow with the prompt?": by_prompt,
    "How many pushes registered before their blocks were staged?": registered,
    "Which share of the engines' steps is the connector's?": connector,
    "What failed, and how did it end?": failures,
    "How many block-seconds were reserved and empty, by decode engine?": reserved,
    "What has changed since a time?": before_and_after,
    "How fast were the transfers, at least and at most?": transfers,
    "What happened to one request, moment by moment?": one_request,
    "How full were the engines meanwhile?": loads,
    "Can I trust it?": trust,
}


@pytest.mark.parametrize("question", CHECKS)
def test_the_answer_is_the_report_s(asked: Asked, question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(asked.folder)
    CHECKS[question](asked, asked.ask(QUESTIONS[question]))


def test_every_question_of_the_page_is_tried() -> None:
    assert QUESTIONS.keys() == CHECKS.keys()
    assert PAGE.read_text().count("```sql") == len(QUESTIONS)


def test_failures_and_what_they_held_are_answered_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = [
        *(item for number in range(4) for item in failed_and_aborted(f"a{number}", number * 100)),
        *failed_and_aborted("b", 500, "decode"),
        *pulled("c", 1000),
        *refused("cmpl-d-0-cccccccc", 2000, cleanup=False),
        *(item for item in pulled("e", 3000) if item["t"] <= 3_120_000_000),
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{json.dumps(item)}\n" for item in moments))
    asked = Asked(path, tmp_path / "tables")
    monkeypatch.chdir(asked.folder)
    for question in (
        "What failed, and how did it end?",
        "How many block-seconds were reserved and empty, by decode engine?",
    ):
        rows = asked.ask(QUESTIONS[question])
        assert rows
        CHECKS[question](asked, rows)


def test_percentiles_of_duckdb_are_nearest_rank(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        for n in range(1, 120):
            sql = "SELECT quantile_disc(range, [0.5, 0.95, 0.99]) FROM range(?)"
            found = connection.execute(sql, [n]).fetchall()[0][0]
            assert found == [nearest_rank(n, p) for p in (50, 95, 99)]


def test_the_band_of_any_number_of_requests_is_the_report_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    classes = ", ".join(
        f"0 AS {name}" for name in re.findall(r"avg\((\w+)\) / ", QUESTIONS[AROUND]) if name != "ttft_ns"
    )
    with duckdb.connect() as connection:
        for n in [*range(1, 60), 99, 100, 101, 350, 1000]:
            rows = f"SELECT 100 + range AS ttft_ns, 0 AS origin_ns, {classes} FROM range({n})"
            connection.execute(f"COPY ({rows}) TO 'requests.parquet'")
            found = connection.execute(QUESTIONS[AROUND]).fetchall()[0]
            low, high = members(n, 95)
            assert (found[0], found[1] * 1e6) == (high - low, pytest.approx(100 + (low + high - 1) / 2))


def test_types_and_units_are_as_the_page_says(asked: Asked) -> None:
    with duckdb.connect() as connection:
        for table in TABLES:
            path = asked.folder / table.file
            told = connection.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()
            assert [(row[0], row[1]) for row in told] == [(each.name, TYPE[each.kind]) for each in table.columns]
    for table in TABLES:
        schema = pq.read_schema(asked.folder / table.file)
        units = {field.name: (field.metadata or {}).get(b"unit", b"").decode() for field in schema}
        assert units == {each.name: each.unit for each in table.columns}


def test_every_request_has_the_row_that_the_report_tells(asked: Asked) -> None:
    rows = {row["request"]: row for row in asked.ask(f"FROM '{asked.folder}/requests.parquet'")}
    assert len(rows) == len(asked.document["requests"])
    for each in asked.document["requests"]:
        row = rows[each["request"]]
        same = each.keys() & row.keys() - {"prefill_engine_id"}
        assert {name: row[name] for name in same} == {name: each[name] for name in same}
        assert {stage.name: row[f"exposed_{stage.name}_ns"] for stage in STAGES if row[f"exposed_{stage.name}_ns"]} == (
            each["exposed"]
        )
        assert {stage.name: row[f"hidden_{stage.name}_ns"] for stage in STAGES if row[f"hidden_{stage.name}_ns"]} == (
            each["hidden"]
        )
        assert [row["coordination_low_ns"], row["coordination_high_ns"]] == each["coordination_ns"]
        assert [row["transfer_low_ns"], row["transfer_high_ns"]] == each["transfer_bounds_ns"]
        for cls in Class:
            column = str(cls).replace(" ", "_")
            assert each["class_ns"][str(cls)][0] == row.get(f"{column}_ns", row.get(f"{column}_low_ns"))
        for branch, bounds in each["slack_ns"].items():
            assert [row[f"slack_{branch}_low_ns"], row[f"slack_{branch}_high_ns"]] == bounds
        for part, ns in each["dispatch_parts"].items():
            assert row[f"dispatch_{part}_ns"] == ns
