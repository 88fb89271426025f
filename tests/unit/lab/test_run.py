"""What a run refuses before it takes a minute to start."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.lab.client import ClientRecord
from kvscope.lab.load import LoadOptions
from kvscope.lab.pair import PairOptions
from kvscope.lab.progress import Silent
from kvscope.lab.run import RunOptions, run, seen_by_client
from kvscope.model.errors import InputError


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (RunOptions(PairOptions("pull"), dispatch="early"), "pull cannot be dispatched early"),
        (RunOptions(dispatch="late"), "early or sequential"),
        (RunOptions(router="nginx"), "kvscope or vllm-router"),
        (RunOptions(load=LoadOptions(rate=0)), "rate above 0"),
        (RunOptions(load=LoadOptions(input_tokens=((9000, 1.0),))), "the model has 8192"),
        (RunOptions(load=LoadOptions(input_tokens=((10**20, 1.0),))), "the model has 8192"),
        (RunOptions(load=LoadOptions(requests=10**20)), "100,000 are the most"),
        (RunOptions(PairOptions("carrier pigeon")), "push or pull"),
        (RunOptions(PairOptions(decodes=0)), "--decodes 0"),
        (RunOptions(PairOptions(blocks=0)), "--blocks 0"),
        (RunOptions(PairOptions(lease_s=-3)), "--lease -3"),
    ],
)
def test_options_that_cannot_be_are_refused(options: RunOptions, why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=why):
        run(options, tmp_path / "out", Silent())
    assert not (tmp_path / "out").exists()


def test_an_earlier_run_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "client.jsonl").write_text("")
    with pytest.raises(InputError, match="earlier run"):
        run(RunOptions(), tmp_path, Silent())


def test_the_client_s_line_tells_answers_and_times_apart() -> None:
    good = ClientRecord("r", False, "p", 1, 0, 0, 5, (250_000_000,), 9, 200, "", 1)
    bad = ClientRecord("r", False, "p", 1, 0, 0, status=500, error="x")
    assert seen_by_client([good, bad]) == "the client: 1 of 2 requests answered; TTFT median 250 ms, p90 250 ms"
    assert seen_by_client([bad]) == "the client: 0 of 1 request answered"
