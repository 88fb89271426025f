"""What may be given away is decided for every field that a recording can hold."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from kvscope.probe import recorder
from kvscope.probe.heading import heading
from kvscope.probe.recording import ProcessPart, Writer, parts
from kvscope.probe.tap import Tap
from kvscope.probe.vocabulary import TEXT_VALUES, VALUES
from kvscope.sharing import allowed
from kvscope.sharing.allowed import Rule
from kvscope.sharing.known import WORDS, known
from kvscope.sharing.markdown import BEGIN, END, tables
from kvscope.sources.records import RECORD
from kvscope.stacks.writing import StacksFile

from .tree import PACKAGE, ROOT

HALVES = {"request_high", "peer_high", "values"}
"""Of a record: made with the other half of a key, and told by VALUES."""
SAID_BY_US = {"shared"}
"""Said of what was shared, and by nobody before."""
DESCRIBED = (PACKAGE / "vllm" / "started.py", PACKAGE / "lab" / "router.py")
"""Where processes are described."""
BY_THE_PROBE = {"ids", "dropped"}
"""What the probe adds to what a process says of itself."""


def test_every_value_of_a_moment_is_decided_on() -> None:
    assert allowed.VALUES.keys() == {name for names in VALUES.values() for name in names}
    assert {name for name, field in allowed.VALUES.items() if field.kind} <= TEXT_VALUES


def test_no_text_is_given_away_as_a_number() -> None:
    """The key of a text is one: kept, it could be tried against texts that somebody thinks of."""
    for name in TEXT_VALUES:
        assert allowed.VALUES[name].rule in (Rule.RENAMED, Rule.HASHED, Rule.DROPPED), name


def test_every_field_of_a_record_is_decided_on() -> None:
    assert allowed.RECORD.keys() == set(RECORD.names or ()) - HALVES


def test_everything_that_is_said_of_a_process_is_decided_on(run_dir: Path, tmp_path: Path) -> None:
    recorder.record(1, 1, "x")
    path = tmp_path / "it.kvs"
    with open(path, "wb") as file:
        Tap(Path(recorder._process.file.directory if recorder._process.file else run_dir), Writer(file)).end()
    with open(path, "rb") as file:
        infos = [part.info for part in parts(file) if isinstance(part, ProcessPart)]
    assert infos
    assert {*infos[0]} | {"before", "ids"} == allowed.PROCESS.keys()  # told of later parts, of hidden ids


def test_everything_that_a_process_says_of_itself_is_decided_on() -> None:
    said = {key for path in DESCRIBED for key in _described(path)}
    assert len(said) > 40
    assert said | BY_THE_PROBE == allowed.STARTED.keys()


def _described(path: Path) -> set[str]:
    """Keys of what a file's functions describe: of each dict in them."""
    tree = ast.parse(path.read_text())
    functions = [
        each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name in ("describe", "_start")
    ]
    dicts = [each for function in functions for each in ast.walk(function) if isinstance(each, ast.Dict)]
    places = [
        each.value
        for each in tree.body
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Dict) and ast.unparse(each.targets[0]) == "POD"
    ]
    keys = [key for found in (*dicts, *places) for key in found.keys]
    return {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}


def test_everything_that_a_file_says_of_itself_is_decided_on() -> None:
    assert {*heading("recording")} | SAID_BY_US == allowed.HEAD.keys()


def test_every_field_of_sampled_stacks_is_decided_on(tmp_path: Path) -> None:
    file = StacksFile(tmp_path / "stacks.jsonl", {"period_ns": 1, "boot_id": "b", "tool": "py-spy 0.4.1"})
    file.sample(
        1, file.thread(2, 3, "MainThread", "p0", "core"), file.stack(("run (vllm/v1/core.py:1)",)), True, None, True
    )
    file.clock(2, 1, 2, 3)
    file.note("x")
    file.close()
    said = {key for line in (tmp_path / "stacks.jsonl").read_text().splitlines() for key in json.loads(line)}
    assert said == allowed.STACKS.keys()


@pytest.mark.parametrize("table", allowed.TABLES.values(), ids=allowed.TABLES.keys())
def test_every_decision_has_a_reason_and_what_it_needs(table: allowed.Table) -> None:
    for name, field in table.items():
        assert field.why, name
        assert (field.rule in (Rule.KNOWN, Rule.RENAMED)) <= bool(field.kind), name
        if field.rule == Rule.KNOWN:
            assert field.kind in WORDS or known(field.kind, "no such word") is None, name


def test_the_page_holds_the_tables() -> None:
    text = (ROOT / "docs" / "share.md").read_text()
    assert text.split(BEGIN)[1].split(END)[0].strip() == tables().strip(), "run python -m kvscope.sharing.markdown"
