"""What engines call themselves, as values of labels: of bounded length, readable, and never two alike."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kvscope.metrics.labels import LONGEST, PAIR, label_value
from kvscope.metrics.tables import Rows

from ..core.scene import moment
from ..live.fleet import Items, request
from ..live.picture import started
from .reader import Reader

LONG = "x" * 9_000
STRANGE = ("p\x000", "p\x1b0", "p\x7f0", "p\u20280", "p\u202e0", "p\n0", "p?0")


@pytest.mark.parametrize("plain", ["", "p0", "10.0.0.5:5600", "modèle/Ünïcode-名前", "a" * LONGEST, "...", 'a "b" \\'])
def test_what_is_plain_and_short_is_left_alone(plain: str) -> None:
    assert label_value(plain) == plain


def test_what_is_long_is_cut_and_still_its_own() -> None:
    names = [LONG, LONG + "x", LONG[:-1] + "y", "a" * (LONGEST + 1)]
    values = [label_value(name) for name in names]
    assert len(set(values)) == len(names)
    assert {len(value) for value in values} == {LONGEST}
    assert all(value[:140] == name[:140] and value[-9] == "…" for value, name in zip(values, names, strict=True))
    assert label_value(LONG) == values[0], "the same each time"


def test_controls_are_told_apart_and_not_told() -> None:
    values = [label_value(name) for name in STRANGE]
    assert len(set(values)) == len(STRANGE)
    assert values[-1] == "p?0"
    assert all(value.startswith("p?0…") and value.isprintable() for value in values[:-1])


def test_nobody_can_take_the_name_that_another_was_cut_to() -> None:
    taken = label_value(LONG)
    assert label_value(taken) != taken
    assert len(label_value(taken)) == LONGEST


def test_nobody_is_taken_for_what_is_beyond() -> None:
    rows = Rows(PAIR)
    assert rows.row(PAIR.rest) == rows.rest
    assert rows.row(("other", "d0")) != rows.rest
    assert list(rows.told().values()).count(PAIR.rest) == 1


def served(prefill: str, decode: str, number: int) -> Items:
    """A request between two engines, which tell what they are in words as long as their names."""
    items = request("early", number, number)
    for item in items:
        item["engine"] = prefill if item["leg"] == "prefill" else decode
        if "peer_engine" in item:
            item["peer_engine"] = prefill
    facts = {"model": LONG, "connector": LONG, "role": LONG, "pod": LONG, "dp_rank": LONG}
    return [started(name, **facts) for name in (prefill, decode)] + items


def test_a_page_of_engines_with_such_names_is_whole_and_no_longer_than_others() -> None:
    reader = Reader()
    names = [*STRANGE, LONG, LONG + "x"]
    items = [item for number, name in enumerate(names) for item in served(name, f"d0{name}", number)]
    contact = {"engine": LONG, "peer_engine": "elsewhere"}
    reader.items([*items, moment(contact, "handshake_begun", 1)], 2)
    for now in (5, 10, 80):
        reader.quiet(now)
    text = reader.exporter.page("").body.decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    series = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in samples]
    assert len(series) == len(set(series))
    values = {value for _, labels in series for _, value in labels}
    assert max(map(len, values)) == LONGEST
    assert all(value.isprintable() for value in values)
    told = {dict(labels)["engine_name"] for name, labels in series if name == "kvscope_engine_info"}
    assert told == {label_value(f"{side}{name}") for name in names for side in ("", "d0")}
    paired = {dict(labels)["engine_name"] for name, labels in series if name == "kvscope_pair_requests_total"}
    assert paired <= told | {"other"}
    assert len(paired) == len(names)
