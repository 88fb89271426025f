"""Which cells a sweep has, in which order, and what is refused before anything is started."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvscope.lab.sweeping.cell import MIXED, PRODUCTION, Cell
from kvscope.lab.sweeping.plan import (
    PER_CELL_S,
    PER_START_S,
    SweepOptions,
    by_connector,
    cells,
    rate_of,
    seconds_left,
)
from kvscope.model.errors import InputError

SMALL = SweepOptions(input_tokens=(300, 1000), shares=(0.3, 0.9), requests=10)


def test_each_connector_is_started_once_and_modes_of_one_load_follow_each_other() -> None:
    found = cells(SMALL)
    assert len(found) == len(set(found)) == 2 * 2 * 3
    assert [connector for connector, _ in by_connector(found)] == ["push", "pull"]
    push = [cell for cell in found if cell.mode != "pull"]
    assert found[: len(push)] == push
    pairs = list(zip(push[::2], push[1::2], strict=True))
    assert all(one.condition == other.condition for one, other in pairs)
    assert all((one.mode, other.mode) == ("push-early", "push-sequential") for one, other in pairs)


def test_names_tell_cells_apart_and_are_folder_names() -> None:
    found = cells(replace(SMALL, rates=(0.5, 2, 2.25)))
    names = {cell.name for cell in found}
    assert len(names) == len(found)
    assert "pull-300-at-2.25rps" in names
    assert not any(set(name) & set("/\\ %") for name in names)


def test_a_rate_is_a_share_of_the_capacity_or_what_was_asked_for() -> None:
    assert rate_of(Cell("pull", 300, 0.5), {300: 8.0}) == 4
    assert rate_of(Cell("pull", 300, 0.5, shared=False), {300: 8.0}) == 0.5


def test_the_production_shape_mixes_lengths_and_has_two_decoders() -> None:
    options = SweepOptions(shape=PRODUCTION, shares=(0.5,))
    assert [(cell.mode, cell.tokens) for cell in cells(options)] == [
        ("push-early", MIXED),
        ("push-sequential", MIXED),
        ("pull", MIXED),
    ]
    assert options.decodes == 2
    assert len(options.prompts) > 1


def test_a_target_has_no_modes_to_choose() -> None:
    assert {cell.mode for cell in cells(replace(SMALL, target="http://host"))} == {"target"}


def test_time_left_is_of_cells_and_of_engines_that_are_still_to_start() -> None:
    found, capacity = cells(SMALL), {300: 10.0, 1000: 4.0}
    sending = 3 * sum(10 / (at * rate) for at in (0.3, 0.9) for rate in (10, 4)) + len(found) * PER_CELL_S
    assert seconds_left(found, SMALL, capacity, started=False) == pytest.approx(sending + 2 * PER_START_S)
    assert seconds_left(found, SMALL, capacity, started=True) == pytest.approx(sending + PER_START_S)
    assert seconds_left(found, SMALL, {300: 10.0}, started=True) == 0, "not known"
    assert seconds_left([], SMALL, {}, started=True) == 0


def test_every_option_changes_the_digest() -> None:
    changed = [
        replace(SMALL, shape=PRODUCTION),
        replace(SMALL, modes=("pull",)),
        replace(SMALL, input_tokens=(300,)),
        replace(SMALL, shares=(0.3,)),
        replace(SMALL, rates=(1.0,)),
        replace(SMALL, requests=11),
        replace(SMALL, output_tokens=4),
        replace(SMALL, seed=1),
        replace(SMALL, target="http://host"),
        replace(SMALL, model="m"),
    ]
    assert len({SMALL.digest, *(each.digest for each in changed)}) == len(changed) + 1
    assert SMALL.digest == replace(SMALL).digest


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (SweepOptions(shape="round"), "controlled or production"),
        (SweepOptions(modes=("pull", "shove")), "no mode 'shove'"),
        (SweepOptions(modes=()), "--modes names nothing"),
        (SweepOptions(modes=("pull", "pull")), "--modes names something twice"),
        (SweepOptions(input_tokens=(300, 300)), "--input-tokens names something twice"),
        (SweepOptions(input_tokens=(0,)), "at least one token"),
        (SweepOptions(shares=(0.0,)), "--shares"),
        (SweepOptions(shares=(30.0,)), "--shares"),
        (SweepOptions(shares=(float("nan"),)), "--shares"),
        (SweepOptions(rates=(float("inf"),)), "--rates"),
        (SweepOptions(rates=(-1.0,)), "--rates"),
        (SweepOptions(requests=0), "--requests 0"),
        (SweepOptions(requests=10**9), "--requests"),
        (SweepOptions(output_tokens=1), "time per token"),
        (SweepOptions(input_tokens=tuple(range(1, 400))), "too many"),
    ],
)
def test_options_that_cannot_be_are_refused(options: SweepOptions, why: str) -> None:
    with pytest.raises(InputError, match=why):
        options.checked()
