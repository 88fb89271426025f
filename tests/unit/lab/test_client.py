"""What a client notes down."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.lab import client
from kvscope.lab.client import ClientRecord
from kvscope.model.errors import InputError

RECORD = ClientRecord("r", False, "abc", 3, 5, 10, 20, (30, 45, 50), 60, 200, "", 3, (1, 2, 3), "xyz")


def test_times_are_taken_from_the_sending() -> None:
    assert RECORD.ttft_ns == 20
    assert RECORD.gaps_ns == (15, 5)
    assert RECORD.ok


def test_a_request_without_tokens_has_no_time_to_first_token() -> None:
    record = ClientRecord("r", False, "abc", 3, 5, 10, status=500, error="broken")
    assert record.ttft_ns is None
    assert not record.ok


def test_records_are_read_back_as_written(tmp_path: Path) -> None:
    client.write(tmp_path / "c.jsonl", [RECORD, RECORD])
    assert client.read(tmp_path / "c.jsonl") == [RECORD, RECORD]


@pytest.mark.parametrize("line", ["{}", "[]", "nonsense", '{"token_ns": [], "token_ids": [], "surprise": 1}'])
def test_another_file_is_refused_by_line(tmp_path: Path, line: str) -> None:
    client.write(tmp_path / "c.jsonl", [RECORD])
    with (tmp_path / "c.jsonl").open("a") as out:
        out.write(line + "\n")
    with pytest.raises(InputError, match="line 2"):
        client.read(tmp_path / "c.jsonl")
