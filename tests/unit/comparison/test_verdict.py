"""What is compared, what is said beside it, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from kvscope.analysis.render.page import Page
from kvscope.cli import main
from kvscope.comparison.conditions import Weight, conditions
from kvscope.comparison.quantiles import quantiles
from kvscope.comparison.render.page import put_comparison
from kvscope.comparison.side import FIGURES, Side, parts_by, side_of
from kvscope.comparison.verdict import Verdict, compared
from kvscope.model.errors import InputError

from .sets import PICTURES, drawn, halves, real, sides, slowed


def told(side: Side, **started: object) -> Side:
    """The same requests, if the engines had told other things of themselves."""
    processes = tuple(replace(each, started={**each.started, **started}) for each in side.processes)
    return replace(side, processes=processes)


def text(verdict: Verdict, width: int = 100) -> str:
    page = Page(width)
    put_comparison(page, verdict)
    assert all(len(line.plain) <= width for line in page.lines)
    return "\n".join(line.plain for line in page.lines)


def pair(number: int = 400) -> tuple[Side, Side]:
    rng = np.random.default_rng(1)
    return sides("push-early", *halves(drawn("push-early", number, rng), rng))


def test_the_exposed_stages_of_the_sure_ones_come_first_and_add_up() -> None:
    one, other = pair()
    late = side_of("after.kvs", slowed(other.splits, "dispatch", 50_000_000), other.processes)
    verdict = compared(one, late)
    assert verdict.exposed[0].figure.name == "dispatch"
    assert sum(each.value for each in verdict.exposed) == pytest.approx(verdict.ttft.value, abs=1e6)  # type: ignore[union-attr]
    shown = text(verdict)
    assert ">> TTFT" in shown
    assert "of the stages dispatch +50.0" in " ".join(shown.split())


def test_events_that_were_lost_are_told_beside_the_numbers() -> None:
    from kvscope.comparison.document import comparison_document

    one, other = pair()
    assert "LOST" not in text(compared(one, other))
    tally = replace(other.splits.tally, lost=7)
    verdict = compared(one, replace(other, splits=replace(other.splits, tally=tally)))
    assert f"LOST 7 events of {other.name}" in " ".join(text(verdict).split())
    assert [side["events_lost"] for side in json.loads(comparison_document(verdict))["comparison"]["sides"]] == [0, 7]


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_it_fits_its_page(width: int) -> None:
    text(compared(*pair()), width)


def test_nothing_that_differs_is_said_with_what_would_have_been_told() -> None:
    shown = " ".join(text(compared(*pair())).split())
    assert "Nothing differs by more than chance among" in shown
    assert "would have been told in four of five tries" in shown
    assert "DIFFERS nothing that engines and requests tell of" in shown


@pytest.mark.parametrize(
    ("started", "weight"),
    [
        ({"vllm": "0.99"}, Weight.SUBJECT),
        ({"connector": "OtherConnector"}, Weight.SUBJECT),
        ({"block_size": 999}, Weight.FLAG),
        ({"model": "another"}, Weight.REFUSE),
    ],
)
def test_what_engines_tell_otherwise_is_told(started: dict[str, object], weight: Weight) -> None:
    one, other = pair()
    found = conditions(one, told(other, **started))
    assert [(each.name, each.weight) for each in found] == [(name, weight) for name in started]


def test_other_models_are_refused_unless_asked_for_anyway() -> None:
    one, other = pair()
    with pytest.raises(InputError, match=r"after.kvs are not comparable: model .* and another; --anyway"):
        compared(one, told(other, model="another"))
    assert "NOT ALIKE" in text(compared(one, told(other, model="another"), anyway=True))


def test_what_was_asked_otherwise_is_flagged() -> None:
    one, other = pair()
    more = replace(other.splits, output_tokens=other.splits.output_tokens * 3)
    slower = replace(more, origin=more.origin[0] + (more.origin - more.origin[0]) * 2)
    found = {each.name: each.weight for each in conditions(one, replace(other, splits=slower))}
    assert found == {"requests/s": Weight.FLAG, "output tokens, median": Weight.FLAG}


def test_how_decode_is_called_is_told() -> None:
    early, sequential = (
        side_of(name, real(name)[1], real(name)[0].processes) for name in ("push-early", "push-sequential")
    )
    (found,) = (each for each in conditions(early, sequential) if each.name == "decode called after prefill")
    assert (found.was, found.now, found.weight) == ("2%", "100%", Weight.SUBJECT)


def test_requests_that_nothing_is_like_are_refused() -> None:
    one, other = pair(40)
    far = replace(other.splits, prompt_tokens=other.splits.prompt_tokens * 1000)
    with pytest.raises(InputError, match=r"no requests of before.kvs and after.kvs are alike: of 20 requests and 20"):
        compared(one, replace(other, splits=far))


def test_few_requests_have_no_intervals_and_say_so() -> None:
    rng = np.random.default_rng(2)
    few = drawn("push-early", 1, rng)
    alike = few.select(np.zeros(7, int))
    verdict = compared(*sides("push-early", alike, alike))
    assert verdict.differences == ()
    assert "Too few requests are alike to say anything: 7 and 7." in text(verdict)


def test_by_parts_the_two_with_most_requests_are_compared() -> None:
    events, splits = real("push-early")
    engines = tuple(replace(each, started={**each.started, "vllm": "0.32.0" if each.engine == "d0" else "x"})
                    for each in splits.engines)  # fmt: skip
    decode = np.flatnonzero([each.engine == "d0" for each in engines])[0]
    twice = replace(splits, engines=(*engines, replace(engines[decode], started={"vllm": "0.33.0"})))
    moved = np.where(np.arange(len(twice)) % 3 == 0, len(engines), twice.decode_engine).astype(np.int32)
    parts = parts_by("version", replace(twice, decode_engine=moved), events.processes)
    assert [(part.name, len(part)) for part in parts] == [("0.32.0", 42), ("0.33.0", 21)]


def test_the_document_has_every_figure_that_is_compared() -> None:
    from kvscope.comparison.document import comparison_document

    verdict = compared(*pair())
    told = json.loads(comparison_document(verdict))
    assert told["version"] == 1
    assert [side["compared"] for side in told["comparison"]["sides"]] == list(verdict.same.counts)
    known = {(figure.name, figure.kind or None) for figure in FIGURES}
    assert {(each["figure"], each["kind"]) for each in told["differences"]} <= known
    assert all(each["low_ns"] <= each["value_ns"] <= each["high_ns"] for each in told["differences"])


def test_the_verb_reads_two_recordings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(PICTURES / "pull.kvs"), str(PICTURES / "push-early.kvs"), "--plain"]) == 0
    shown = capsys.readouterr().out
    assert "mode pull -> push" in shown
    assert "registration_flight" in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["pull.kvs"], "compare takes two recordings, not 1; or one with --by connector|version|pod"),
        (["pull.kvs", "pull.kvs"], "is named twice"),
        (["pull.kvs", "--by", "version"], "there is nothing to compare by version: all its requests are of 0.32.0"),
        (["pull.kvs", "nowhere.kvs"], "there is no"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(PICTURES))
    assert main(["compare", *words]) == 2
    shown = capsys.readouterr().err
    assert sentence in shown
    assert shown.count("\n") == 1


def test_a_picture_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = [str(PICTURES / name) for name in ("push-sequential.kvs", "push-early.kvs")]
    path = tmp_path / "picture.svg"
    assert main(["compare", *both, "--svg", str(path), "--plain"]) == 0
    assert "picture written to" in capsys.readouterr().err
    drawn = ElementTree.parse(path).getroot()
    texts = [each.text or "" for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"dispatch", "p50", "TTFT, ms, by quantile"} <= set(texts)
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}polyline"))) == 3
    assert main(["compare", *both, "--svg", str(path)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_quantiles_of_a_shift_are_apart_by_it_and_within_the_band() -> None:
    one, other = pair(1000)
    late = side_of("after.kvs", slowed(other.splits, "wire", 40_000_000), other.processes)
    verdict = compared(one, late)
    found = quantiles(one, late, verdict.same)
    assert np.median(found.apart) == pytest.approx(40e6, rel=0.5)
    assert ((found.low <= 40e6) & (found.high >= 40e6)).mean() >= 0.7
    assert (found.low <= found.apart).mean() >= 0.9


def test_stages_that_do_not_mean_the_same_in_both_versions_are_marked() -> None:
    one, other = pair()
    verdict = compared(one, told(other, vllm="0.33.1"))
    assert [seam.stage for seam in verdict.seams] == ["prefill_queue", "read_handoff", "report"]
    assert "NOT THE SAME  prefill_queue ~ takes in more from 0.33 on: " in text(verdict)
    assert compared(one, told(other, vllm="0.32.1")).seams == ()
    assert compared(told(one, vllm="0.33.0"), told(other, vllm="0.34.0")).seams == ()
