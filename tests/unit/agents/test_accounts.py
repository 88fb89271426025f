"""What is known of runs and processes: which batch is next, what is missing."""

from __future__ import annotations

import random

from kvscope.agents.accounts import Account, Run, Verdict, account_of, opened
from kvscope.agents.owners import SILENT_NS, Owners


def test_a_batch_is_next_once_and_what_lies_between_two_is_missing() -> None:
    run = Run()
    assert run.judge(1) is Verdict.NEXT
    run.take(1)
    assert run.judge(1) is Verdict.DUPLICATE
    assert run.judge(4) is Verdict.AFTER_GAP
    run.take(4)
    assert (run.part, run.missing) == (4, 2)


def test_whatever_is_left_out_of_batches_is_lost_to_the_record() -> None:
    chance = random.Random(7)
    for _ in range(50):
        account, taken, came = Account(0, 0, 0), 0, 0
        for _ in range(20):
            held, lost = chance.randrange(100), chance.randrange(3)
            if chance.random() < 0.7:
                account.take(taken, held, lost)
                came = taken + held + lost
            taken += held + lost
        assert account.held + account.lost == came
        assert account.overlap == 0


def test_an_aggregator_that_goes_on_counts_what_came_before_as_before() -> None:
    first = Account(3, 100, 100)
    first.take(100, 50, 5)
    later = account_of(first.told())
    later.take(160, 10, 0)
    said = later.said({"pid": 1})
    assert later.number == 3
    assert (said["earlier"], said["before"], said["lost"]) == (155, 50, 5)


def test_what_went_in_the_spool_before_the_first_contact_is_lost_and_what_others_took_is_not() -> None:
    account = opened(0, {"earlier": 1000, "before": 900}, dropped=300)
    account.take(1000, 10, 0)
    assert (account.lost, account.before) == (300, 600)


def test_records_that_come_in_two_batches_are_counted_as_that() -> None:
    account = Account(0, 0, 0)
    account.take(0, 10, 0)
    account.take(5, 10, 0)
    assert account.overlap == 5


def info(engine_id: str, boot: str = "one", rank: int = 0, alive: bool = True) -> dict[str, object]:
    started = {"engine_id": engine_id, "process": "worker", "rank": rank}
    return {"boot_id": boot, "alive": alive, "started": started}


def test_an_engine_id_is_the_first_agent_s_while_that_is_heard() -> None:
    owners = Owners()
    owners.heard("a", 0)
    assert not owners.other("a", "1-1", info("e"), 0)
    assert "engine id e" in owners.other("b", "9-9", info("e", "two"), 1)
    assert not owners.other("b", "9-9", info("e", "two", rank=1), 1), "an engine on several hosts has a rank on each"
    assert not owners.other("b", "9-9", info("e", "two"), SILENT_NS), "it moved"


def test_a_process_is_one_agent_s_and_one_that_ended_is_nobody_s() -> None:
    owners = Owners()
    owners.heard("a", 0)
    assert not owners.other("a", "1-1", info("e"), 0)
    assert "process 1-1" in owners.other("b", "1-1", info("other"), 1)
    assert not owners.other("a", "1-1", info("e", alive=False), 2)
    assert not owners.other("b", "7-7", info("e"), 3)
