"""The incidents that can be made: what the table says of them goes together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kvscope.cli import main
from kvscope.diagnosis.texts import TEXTS, UNFAMILIAR
from kvscope.lab.case import Case, read_truth, truth_of, write_truth
from kvscope.lab.cases import CASES, NOT_MADE, PULL, PUSH, chosen
from kvscope.lab.dispatch import Conduct
from kvscope.lab.load import plan
from kvscope.lab.making import MakeOptions, grouped, make
from kvscope.lab.progress import Silent
from kvscope.model.errors import InputError

BY_NAME = {case.name: case for case in CASES}


def named(case: Case) -> str:
    return case.name


def test_every_known_incident_is_made_or_has_a_reason() -> None:
    made = {case.expected for case in CASES} | {case.name for case in CASES}
    assert set(TEXTS) - {UNFAMILIAR} - {"prefix-hit-or-leak"} <= made | set(NOT_MADE)
    assert not made & set(NOT_MADE)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_case_can_be(case: Case) -> None:
    """Better said here than after a minute's start."""
    engines = {f"p{at}" for at in range(case.pair.prefills)} | {f"d{at}" for at in range(case.pair.decodes)}
    for phase in case.phases:
        Conduct(case.dispatch).changed(case.pair.connector, phase.conduct)
        assert {blow.engine for blow in phase.blows} <= engines
        for load in phase.loads:
            assert max(len(each.prompt) for each in plan(load)) + load.output_tokens <= case.pair.model.positions
            assert load.warm_up == 0
    blocks = case.pair.decode_blocks
    assert blocks is None or 128 * blocks >= case.pair.model.positions, "vLLM wants room for one request of any length"
    assert bool(case.expected) == bool(case.stage) == bool(case.culprit)
    assert not case.expected or case.expected in TEXTS
    assert any(phase.faulty for phase in case.phases) or not case.expected
    assert not case.beside or case.beside in BY_NAME


def test_cases_with_equal_engines_share_a_pair_and_those_that_break_them_come_last() -> None:
    groups = {
        options.connector: [case.name for case in group]
        for options, group in grouped([case for case in CASES if case.pair in (PUSH, PULL)])
    }
    assert groups["push"][0] == "slow-first-contact"
    assert groups["pull"][-1] == "prefill-dies-at-handshake"
    assert len(grouped(CASES)) == len({repr(case.pair) for case in CASES})


def test_what_shows_what_is_usual_comes_first() -> None:
    assert [case.name for case in chosen(["slow-transport", "no-handoff"])] == [
        "healthy-wide",
        "slow-transport",
        "no-handoff",
    ]
    assert chosen(["all"]) == list(CASES)


@pytest.mark.parametrize(("name", "said"), [("nothing", "no case 'nothing'"), ("slowest-rank", "two ranks")])
def test_a_case_that_is_not_made_is_refused(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        chosen([name])


def test_earlier_ones_are_not_written_over(tmp_path: Path) -> None:
    case = BY_NAME["late-registration"]
    (tmp_path / case.name).mkdir()
    with pytest.raises(InputError, match="name another folder"):
        make([case], MakeOptions(tmp_path), Silent(), print)
    with pytest.raises(InputError, match="--times 0"):
        make([case], MakeOptions(tmp_path / "new", times=0), Silent(), print)


def test_a_truth_is_read_as_it_was_written(tmp_path: Path) -> None:
    truth = truth_of(BY_NAME["late-registration"], ((1, 5, False), (6, 9, True)))
    assert (truth.slug, truth.stage, truth.cls, truth.culprit) == (
        "late-registration",
        "dispatch",
        "coordination",
        "router",
    )
    assert (truth.begin_ns, truth.end_ns) == (6, 9)
    write_truth(tmp_path / "truth.json", truth)
    assert read_truth(tmp_path / "truth.json") == truth
    assert truth_of(replace(BY_NAME["chunked-prefill"]), ((1, 2, False),)).begin_ns == 0
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(InputError, match=r"other\.json"):
        read_truth(tmp_path / "other.json")


def test_the_command_alone_lists_what_is_made_and_what_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "incident"]) == 0
    told = capsys.readouterr().out
    assert all(f"{name} " in told for name in (*BY_NAME, *NOT_MADE))


@pytest.mark.parametrize("words", [["nothing"], ["slowest-rank"], ["late-registration", "--times", "0"]])
def test_what_cannot_be_made_is_one_sentence(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "incident", *words, "-o", str(tmp_path / "made")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("kvscope: ")
    assert error.count("\n") == 1
    assert not (tmp_path / "made").exists()
