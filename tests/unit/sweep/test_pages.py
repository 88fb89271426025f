"""The pages: what stands on them, that they stand alone, and that no name gets out of its place."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from kvscope.analysis.condition import Clocks
from kvscope.lab.sweeping.cell import Cell
from kvscope.sweep.document import VERSION, sweep_document
from kvscope.sweep.measured import Measured
from kvscope.sweep.render.markdown import escaped, markdown
from kvscope.sweep.render.page import page
from kvscope.sweep.results import Results

from .scenes import MODES, measured, outside, results, whole

EARLY, PULL = Cell("push-early", 1000, 0.5), Cell("pull", 1000, 0.5)
HOSTILE = "<script>alert(1)</script>\"'|`*_[x](http://evil) @all \x1b[31m\n# big\u202e"
VOID = {"meta", "br"}


class Page(HTMLParser):
    """Elements, what they ask for, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.wanted: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.wanted += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def html(found: Results) -> Page:
    return Page("".join(page(found)))


def test_the_page_stands_alone() -> None:
    text = "".join(page(whole()))
    seen = Page(text)
    assert not {"script", "link", "img", "iframe"} & set(seen.seen)
    assert seen.wanted == [f"cells/{mode}-1000-at-0.5/recording.kvs" for mode in MODES]
    assert not re.search(r"url\((?!#)", text)
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize("write", [page, markdown])
def test_no_figure_stands_without_its_count(write: object) -> None:
    text = re.sub("<[^>]+>+", " ", "".join(write(whole())))  # type: ignore[operator]
    told = re.findall(r"\d +\(-?[+\d.,]+ to [-+\d.,]+\)(?P<after> n \d+)?", text)
    assert len(told) > 10
    assert all(told)


def test_parts_add_up_to_the_mean_as_written() -> None:
    text = "".join(markdown(whole()))
    rows = re.findall(r"([\d,.]+) = front ([\d,.]+) \+ wait ([\d,.]+) \+ run ([\d,.]+) \+ coord ([\d,.]+) \+ xfer"
                      r" ([\d,.]+) \+ undet ([\d,.]+), n", text)  # fmt: skip
    assert len(rows) == len(MODES)
    for whole_mean, *parts in ([float(each.replace(",", "")) for each in row] for row in rows):
        assert sum(parts) == pytest.approx(whole_mean, abs=1e-6)


def test_what_came_of_it_is_said_with_its_counts_and_its_class() -> None:
    said = whole().headlines
    assert said[0] == "push early against push sequential: TTFT apart by no more than chance in 1 of 1 cell."
    assert re.fullmatch(
        r"push early against pull: TTFT higher in 1 of 1 cell \(by \d+ ms, n 63, more than half of it coordination\)\.",
        said[1],
    )


def test_too_few_requests_draw_no_percentile_and_say_so() -> None:
    found = results([outside(EARLY, [300.0] * 5), outside(PULL, [310.0] * 5)])
    seen = html(found)
    assert "too few (n 5)" in seen.text
    assert "too few requests: no figure" in seen.text
    assert "of too few requests in 1 of 1 cell" in seen.text
    document = json.loads("".join(sweep_document(found)))
    assert document["cells"][0]["ttft_ns"] == {"p50": None, "p95": None}


def test_failures_losses_and_what_is_left_stand_beside_the_figures() -> None:
    failed = outside(EARLY, [300.0] * 20, ["TimeoutError: "] * 3)
    found = results([failed, measured(PULL, lost=12)], left=[Cell("push-sequential", 1000, 0.5)])
    for text in (html(found).text, "".join(markdown(found))):
        assert "20 of 23 answered, 3 failed" in text
        assert "12 events lost, one clock" in text
        assert "3 of 86 requests failed, in 1 cell" in text
        assert "1 of 3 cells not measured yet" in text
        assert "client-side figures only" in text


def test_what_the_clocks_of_two_hosts_leave_open_stands_beside_the_figures() -> None:
    found = measured(PULL)
    assert found.inside is not None
    condition = replace(found.inside.condition, clocks=Clocks((), 63, 900_000, 1_300_000))
    setup = replace(found.inside.setup, hosts=("one", "other"))
    apart = replace(found, inside=replace(found.inside, condition=condition, setup=setup))
    assert "2 hosts, times between them within 1.3 ms" in html(results([apart])).text


def test_requests_of_several_shapes_are_counted_by_shape() -> None:
    found = measured(PULL)
    assert found.inside is not None
    condition = replace(found.inside.condition, shapes=(("pull", 59), ("return_read", 4)))
    mixed = replace(found, inside=replace(found.inside, condition=condition))
    assert "one clock, pull 59, return read 4" in html(results([mixed])).text
    assert "one clock, pull" not in html(results([found])).text


def test_nothing_measured_yet_is_a_page_too() -> None:
    found = results([], left=[EARLY])
    assert "nothing is measured yet" in html(found).text
    assert "0 of 1 cell" in "".join(markdown(found))
    assert json.loads("".join(sweep_document(found)))["cells"] == []


def hostile() -> Results:
    odd = outside(EARLY, [300.0] * 12, [HOSTILE])
    odd = replace(odd, notes=(HOSTILE,), told={**odd.told, "machine": {"cores": 2, "platform": HOSTILE}})
    found = measured(PULL)
    return results([odd, named(found, HOSTILE)], target=f"http://{HOSTILE}")


def named(each: Measured, value: str) -> Measured:
    """As if its engines had told `value` of themselves."""
    assert each.inside is not None
    setup = each.inside.setup
    facts = {name: replace(fact, values=((value, ("p0",)),)) for name, fact in setup.facts.items()}
    return replace(each, inside=replace(each.inside, setup=replace(setup, facts=facts)))


def test_names_stay_names_in_html() -> None:
    text = "".join(page(hostile()))
    seen = Page(text)
    assert "script" not in seen.seen
    assert "<script>alert(1)</script>" in seen.text
    assert not set("\x1b\u202e") & set(text)


def test_names_stay_names_in_markdown() -> None:
    text = "".join(markdown(hostile()))
    assert not re.search(r"(?<!\\)[<@`]", text)
    assert not re.search(r"(?<!\\)\]\(", text)
    assert not set("\x1b\u202e") & set(text)
    assert not re.search(r"^# big", text, re.M)
    tables = [block for block in text.split("\n\n") if block.startswith("| ")]
    for table in tables:
        columns = {len(re.findall(r"(?<!\\)\|", line)) for line in table.strip().split("\n")}
        assert len(columns) == 1


def test_text_that_is_escaped_stays_text() -> None:
    assert escaped("a|b\nc") == r"a\|b c"
    assert escaped("1.5 (2 to 3) n 4 *") == r"1.5 (2 to 3) n 4 \*"


def test_the_document_has_every_cell_and_every_contrast() -> None:
    told = json.loads("".join(sweep_document(whole())))
    assert told["version"] == VERSION
    assert [cell["mode"] for cell in told["cells"]] == list(MODES)
    assert len(told["contrasts"]) == 3
    for cell in told["cells"]:
        assert cell["ttft_ns"]["p50"]["requests"] == cell["inside"]["timed"]
        assert sum(cell["inside"]["classes_ns"].values()) == pytest.approx(cell["inside"]["mean_ns"])
        assert sum(cell["inside"]["stages_ns"].values()) == pytest.approx(cell["inside"]["mean_ns"])
        low, high = cell["inside"]["transfer_ns"]
        assert low <= high
