"""Conversations: each turn goes on where the answer before it ended, and hands back what that told of its blocks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from aiohttp import web

from kvscope.lab.client import ClientRecord
from kvscope.lab.sessions import SessionOptions, converse

from .engines import FakeEngine, serving

OPTIONS = SessionOptions(
    "talk", sessions=2, turns=3, rate=200.0, first_tokens=20, further_tokens=5, output_tokens=2, think_s=0
)
HANDED_BACK = {"do_remote_decode": True, "remote_block_ids": [[7]]}


def talked(options: SessionOptions, *, failing: str = "", odd: bool = False) -> tuple[FakeEngine, list[ClientRecord]]:
    """What an engine was asked, and what its client kept."""
    engine = FakeEngine()

    async def answer(request: web.Request) -> web.StreamResponse:
        await engine.take(request)
        if failing and request.headers["X-Request-Id"].endswith(failing):
            return web.Response(status=500, text="no room")
        if odd:
            return web.json_response({"choices": []})
        told: dict[str, Any] = {"choices": [{"text": "ab", "token_ids": [1, 2]}], "usage": {"completion_tokens": 2}}
        return web.json_response({**told, "kv_transfer_params": HANDED_BACK})

    async def run() -> list[ClientRecord]:
        async with serving(engine, answer):
            return await converse(options, engine.url)

    return engine, asyncio.run(run())


def asked(engine: FakeEngine, session: int) -> list[dict[str, Any]]:
    return [seen.body for seen in engine.seen if f"-{session:04d}." in seen.request]


def test_a_turn_holds_all_that_was_said_and_the_blocks_of_the_answer_before() -> None:
    engine, records = talked(OPTIONS)
    assert [record.request for record in records] == [f"talk-{n:04d}.{turn}" for n in (0, 1) for turn in (0, 1, 2)]
    assert all(record.ok for record in records)
    for number in (0, 1):
        first, second, third = asked(engine, number)
        assert len(first["prompt"]) == 20
        assert second["prompt"][:22] == [*first["prompt"], 1, 2]
        assert third["prompt"][:29] == [*second["prompt"], 1, 2]
        assert "kv_transfer_params" not in first
        assert second["kv_transfer_params"] == third["kv_transfer_params"] == HANDED_BACK
    assert asked(engine, 0)[0]["prompt"] != asked(engine, 1)[0]["prompt"]


def test_nothing_goes_on_from_an_answer_that_is_not_there() -> None:
    engine, records = talked(OPTIONS, failing="0000.1")
    assert [(record.request, record.ok) for record in records if "0000" in record.request] == [
        ("talk-0000.0", True),
        ("talk-0000.1", False),
    ]
    assert len(asked(engine, 1)) == 3
    assert next(record.error for record in records if not record.ok) == "no room"


def test_an_answer_that_is_none_is_a_failure_and_no_traceback() -> None:
    _, records = talked(replace(OPTIONS, sessions=1), odd=True)
    assert [record.ok for record in records] == [False]
    assert "no completion" in records[0].error


def test_another_salt_says_other_things_of_the_same_length() -> None:
    one, other = (asked(talked(replace(OPTIONS, salt=salt))[0], 0) for salt in ("one", "other"))
    assert [len(each["prompt"]) for each in one] == [len(each["prompt"]) for each in other]
    assert one[0]["prompt"] != other[0]["prompt"]
