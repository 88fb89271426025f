"""What is printed: the page, the lines to paste, the document."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kvscope.analysis.render.page import Page
from kvscope.diagnosis.document import diagnosis_document
from kvscope.diagnosis.finding import Diagnosis
from kvscope.diagnosis.render.page import put_diagnosis
from kvscope.diagnosis.render.paste import LINES, WIDTH, paste

from .conftest import ALL, Diagnose, diagnosis_of
from .incidents import push
from .real import recording


def page_of(diagnosis: Diagnosis, width: int = 100) -> list[str]:
    page = Page(width)
    put_diagnosis(page, diagnosis, "inc.kvs")
    return [line.plain for line in page.lines]


@pytest.fixture(scope="module")
def late() -> Diagnosis:
    return diagnosis_of("late router")


@pytest.mark.parametrize("name", ALL)
def test_every_finding_fits_a_page_and_twelve_lines(name: str) -> None:
    found = diagnosis_of(name)
    lines = page_of(found)
    assert max(len(line) for line in lines if " request " not in line) <= 100
    assert all(line.isascii() for line in lines)
    pasted = paste(found)
    assert 1 <= len(pasted) <= LINES
    assert all(len(line) <= WIDTH and line.isascii() for line in pasted)
    assert ALL[name].slug in pasted[0]
    assert json.loads(diagnosis_document(found))["findings"][0]["slug"] == ALL[name].slug


def test_the_page_says_what_is_asked_of_it(late: Diagnosis) -> None:
    text = "\n".join(page_of(late))
    labels = [
        "SINCE",
        "WHO",
        "STAGE",
        "MEASURED",
        "RULED OUT",
        "MECHANISM",
        "REFUTED BY",
        "DO",
        "PRICE",
        "HYPOTHETICAL",
    ]
    places = [text.index(f"\n{label}") for label in labels]
    assert places == sorted(places)
    assert text.startswith("1 of 1  late-registration   explains +502 of +502 ms TTFT on average (100%)")
    assert "registered before staged 98% -> 0%" in text
    assert "kvscope request" in text.splitlines()[-2]


def test_what_is_more_than_the_excess_was_made_up_for_elsewhere(late: Diagnosis) -> None:
    assert late.ttft.was is not None
    found = replace(late, ttft=replace(late.ttft, was=late.ttft.was + 100e6))
    lines = " ".join(line.strip() for line in page_of(found))
    assert "explains +502 of +402 ms TTFT on average (all of it; other stages took 100 ms less)" in lines


def test_stages_and_everything_else_add_up(late: Diagnosis) -> None:
    lines = page_of(late)
    begin = next(index for index, line in enumerate(lines) if line.startswith("MEASURED")) + 1
    end = next(index for index, line in enumerate(lines) if "everything else" in line) + 1
    now = [float(line.split()[-2].replace(",", "")) for line in lines[begin:end]]
    assert sum(now) == pytest.approx(late.ttft.now / 1e6, abs=1.0)


def test_of_a_healthy_recording_it_says_that_nothing_was_found(diagnosed: Diagnose) -> None:
    found = diagnosed(recording("pull"))
    assert page_of(found)[0] == "NOTHING FOUND in 63 requests, with nothing to compare with."
    assert paste(found)[0] == page_of(found)[0]
    assert json.loads(diagnosis_document(found))["findings"] == []


def test_where_no_request_has_a_ttft_none_is_told(diagnosed: Diagnose) -> None:
    found = replace(diagnosed(recording("push-early")), timed=0, findings=())
    for told in ("\n".join(page_of(found)), "\n".join(paste(found))):
        assert "not known: no request that is judged got its first token" in " ".join(told.split())
        assert "0.00 ms" not in told


def test_the_document_holds_the_evidence(late: Diagnosis) -> None:
    document = json.loads(diagnosis_document(late))
    (finding,) = document["findings"]
    assert (finding["stage"], finding["class"], finding["familiar"]) == ("dispatch", "coordination", True)
    assert finding["share"] == pytest.approx(1.0, abs=0.01)
    assert {one["slug"] for one in finding["ruled_out"]} >= {"decode-out-of-blocks", "slow-transport", "clock-skew"}
    assert finding["requests"]
    stages = {stage["name"]: stage for stage in document["diagnosis"]["stages"]}
    assert stages["dispatch"]["now"] - stages["dispatch"]["was"] > 5e8


def test_several_findings_are_numbered(diagnosed: Diagnose) -> None:
    found = diagnosed(push({"D.scheduled": 300, "first_token": 500}), recording("push-early"))
    text = "\n".join(page_of(found))
    assert "1 of 2  unfamiliar: stage decode_run grew" in text
    assert "2 of 2  unfamiliar: stage decode_queue grew" in text
    assert paste(found)[-1].startswith("also: unfamiliar: stage decode_queue grew")
