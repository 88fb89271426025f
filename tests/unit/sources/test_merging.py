"""What several sources say of one process."""

from __future__ import annotations

from typing import Any

from kvscope.model.events import Gap, Process
from kvscope.sources.absent import absent
from kvscope.sources.merging import Said, gaps_between, merged, under_other_ids


def said(earlier: int, held: int, span: tuple[int, int] | None, **more: Any) -> Said:
    return Said({"pid": 1, "segments": 1, "earlier": earlier, **more}, held, span)


def test_what_lies_between_two_sources_is_a_gap_and_no_loss() -> None:
    found = merged([said(5, 100, (10, 20)), said(505, 100, (70, 80))], 200)
    assert (found.lost, found.earlier, found.gaps) == (0, 5, (Gap(20, 70, 400),))


def test_the_order_in_which_sources_are_named_changes_nothing() -> None:
    both = [said(5, 100, (10, 20)), said(505, 100, (70, 80), lost=3)]
    assert merged(both, 200) == merged(both[::-1], 200)


def test_losses_are_what_the_sources_say_they_lost() -> None:
    found = merged([said(0, 90, (10, 20), lost=10), said(300, 50, (70, 80), lost=2)], 140)
    assert (found.lost, [gap.events for gap in found.gaps]) == (12, [200])


def test_what_one_source_lost_and_another_holds_is_no_loss() -> None:
    found = merged([said(0, 90, (10, 80), lost=10), said(0, 100, (10, 80))], 100)
    assert (found.lost, found.gaps) == (0, ())


def test_what_one_thread_had_overwritten_while_another_had_not_goes_to_the_gap() -> None:
    # 200 in all at first, then 400, of which one thread's 50 are in neither: counts alone show no gap.
    found = merged([said(0, 200, (10, 20)), said(150, 250, (15, 80)), said(400, 10, (90, 95))], 360)
    assert (found.lost, found.gaps) == (0, (Gap(80, 90, 50),))


def test_parts_that_follow_each_other_have_no_gap() -> None:
    found = merged([said(0, 100, (10, 20)), said(100, 100, (21, 80), before=100)], 200)
    assert (found.lost, found.earlier, found.before, found.gaps) == (0, 0, 0, ())


def test_what_earlier_parts_held_is_not_what_rings_no_longer_had() -> None:
    found = merged([said(107, 10, (10, 20), before=100), said(117, 10, (21, 30), before=110)], 20)
    assert (found.earlier, found.before) == (7, 100)


def test_a_part_that_holds_nothing_of_it_makes_no_loss() -> None:
    found = merged([said(0, 0, None), said(100, 50, (10, 20), before=100), said(900, 0, None, alive=False)], 50)
    assert (found.lost, found.earlier, found.before, found.gaps, found.ended) == (0, 0, 100, (), True)


def test_counts_alone_tell_the_gap_where_twins_are_not_known() -> None:
    assert gaps_between([said(0, 100, (10, 20)), said(500, 100, (70, 80)), said(600, 1, (90, 90))]) == (
        Gap(20, 70, 400),
    )


def test_sources_whose_ids_were_written_in_different_ways_share_what_both_saw() -> None:
    kept, hashed = said(0, 100, (10, 80)), said(60, 100, (50, 99), ids="hash")
    assert under_other_ids([kept, hashed]) == 40
    assert under_other_ids([kept, said(100, 5, (81, 82), ids="hash")]) == 0
    assert under_other_ids([kept, said(60, 100, (50, 99))]) == 0


def test_gaps_of_several_processes_at_a_time_are_told_together() -> None:
    second = 10**9
    one = Process("p0", wall_ns=0, gaps=(Gap(10 * second, 70 * second, 400),))
    other = Process("d0", wall_ns=0, gaps=(Gap(12 * second, 69 * second, 1),), before=7)
    assert list(absent([one, other])) == [
        "not in these recordings: 401 events between 00:00:10 and 00:01:10 UTC; requests cut there are incomplete",
        "not in these recordings: 7 events of parts before them, removed or not named",
    ]


def test_many_stretches_are_one_sentence() -> None:
    second = 10**9
    gaps = tuple(Gap(at * second, (at + 5) * second, 2) for at in range(0, 100, 10))
    assert list(absent([Process("p0", gaps=gaps)])) == [
        "not in these recordings: 20 events in 10 stretches between them, for 95.0 s; requests cut there are incomplete"
    ]
