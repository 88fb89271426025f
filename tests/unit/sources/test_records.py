"""Raw records as columns."""

from __future__ import annotations

import numpy as np

from kvscope.probe.vocabulary import REASON_CODE, STATE_CODE, THREAD_CODE
from kvscope.sources.records import RECORD, to_rows


def test_void_records_are_left_out_and_each_row_names_its_process() -> None:
    found = np.zeros(3, RECORD)
    found["moment"], found["t"] = (5, 0, 6), (10, 20, 30)
    rows = to_rows([(4, found), (2, found[:1])])
    assert rows["t"].tolist() == [10, 30, 10]
    assert rows["process"].tolist() == [4, 4, 2]


def test_a_code_without_a_word_stands_for_nothing() -> None:
    """Of a later version, or of a damaged ring."""
    found = np.zeros(2, RECORD)
    found["moment"] = 5
    found["thread"], found["state"], found["reason"] = (THREAD_CODE["writer"], 200), (STATE_CODE["ERR"], 99), (1, 40000)
    rows = to_rows([(0, found)])
    assert rows["thread"].tolist() == [THREAD_CODE["writer"], 0]
    assert rows["state"].tolist() == [STATE_CODE["ERR"], 0]
    assert rows["reason"].tolist() == [REASON_CODE["blocks"], 0]
