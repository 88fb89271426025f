"""The language of the request table's filter."""

from __future__ import annotations

import numpy as np
import pytest

from kvscope.core.critical_path import split
from kvscope.live.figures import FIGURES, LABELS
from kvscope.live.filter import parse_filter
from kvscope.live.listing import NEWEST, Listing
from kvscope.model.errors import InputError
from kvscope.model.splits import Splits

from .fleet import events, request


def some() -> Splits:
    hung = [item for item in request("pull", 4, 4000) if item["t"] <= 4_120_000_000]
    return split(
        events(
            [
                request("early", 1, 0),
                request("sequential", 2, 1000, delay_ms=200),
                request("sequential", 3, 2000, decode="d1"),
                hung,
            ]
        )
    )


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", [1, 2, 3, 4]),
        ("ttft>200ms", [2]),
        ("ttft<=147ms", [1, 3]),
        ("ttft!=136ms", [2, 3]),
        ("stage.dispatch>50ms", [2]),
        ("stage.dispatch>=5ms engine=d1", [3]),
        ("hidden.registration_flight>50ms", [1]),
        ("class.coord>100ms", [2]),
        ("class=coordination", [2]),
        ("class=compute_run shape=push", [1, 3]),
        ("engine=p0 decode!=d0", [3]),
        ("state=unfinished", [4]),
        ("last=posted", [4]),
        ("last=decode.posted", [4]),
        ("age>0ms", [4]),
        ("r0002", [2]),
        ("id~R0003", [3]),
        ("id!=nothing", [1, 2, 3, 4]),
        ("output=3", [1, 2, 3]),
    ],
)
def test_terms(text: str, numbers: list[int]) -> None:
    splits = some()
    kept = splits.select(parse_filter(text)(splits))
    assert sorted(int(kept.text(row)[6:10]) for row in range(len(kept))) == numbers


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stage.dispach>5ms", "did you mean stage.dispatch?"),
        ("ttft>5", "not a length of time"),
        ("ttft~5ms", "ttft is compared by < <= > >= = !="),
        ("engine>5", "engine is compared by = != ~"),
        ("output>many", "not a number"),
        ("ttft>", "what is it to be compared with? write for example ttft>50ms"),
        ("nonsense=1", "there is no 'nonsense'"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("?", r"\?")):
        parse_filter(text)


def test_every_figure_and_label_can_be_had() -> None:
    splits = some()
    empty = splits.select(np.zeros(len(splits), bool))
    for found in (splits, empty):
        assert all(figure.of(found).shape == (len(found),) for figure in FIGURES)
        assert all(column.shape == (len(found),) for label in LABELS for column in label.of(found)[0])
        assert all(len(parse_filter(f"{label.name}=x")(found)) == len(found) for label in LABELS)
        assert all(len(Listing(figure.name).rows(found)) == len(found) for figure in FIGURES)


def test_order_puts_what_is_not_known_last() -> None:
    splits = some()

    def numbers(listing: Listing) -> list[int]:
        return [int(splits.text(row)[6:10]) for row in listing.rows(splits).tolist()]

    assert numbers(Listing()) == [4, 3, 2, 1]
    assert numbers(Listing("ttft")) == [2, 3, 1, 4]
    assert numbers(Listing("ttft").sorted_by("ttft")) == [1, 3, 2, 4]
    assert Listing("ttft").sorted_by(NEWEST) == Listing()
