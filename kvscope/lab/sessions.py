"""Conversations: each turn goes on where the answer before it ended, and may hand its blocks back to be read."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic_ns
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from kvscope.lab.client import ClientRecord

LETTERS = (*range(65, 91), *range(97, 123))
"""Tokens of letters, under a byte-level tokenizer; under most others they are something, too."""


@dataclass(frozen=True)
class SessionOptions:
    """What is sent."""

    name: str
    """Ids of its requests begin with it."""
    sessions: int = 4
    turns: int = 3
    rate: float = 0.5
    """Sessions that begin, per second."""
    first_tokens: int = 400
    further_tokens: int = 120
    output_tokens: int = 96
    think_s: float = 0.5
    """Between an answer and the next turn."""
    seed: int = 0
    salt: str = ""
    """Changes the texts, and nothing else: what was sent before is not in a cache."""
    timeout_s: float = 120.0
    model: str = ""


def begins(options: SessionOptions) -> list[float]:
    """Seconds after the begin at which sessions begin."""
    chance = random.Random(f"sessions {options.seed}")
    at, found = 0.0, []
    for _ in range(options.sessions):
        at += chance.expovariate(options.rate)
        found.append(at)
    return found


def tokens(count: int, seed: str) -> list[int]:
    """Random letters, as tokens."""
    return random.Random(seed).choices(LETTERS, k=count)


async def converse(
    options: SessionOptions, url: str, answered: Callable[[ClientRecord], None] = lambda _: None
) -> list[ClientRecord]:
    """Send them all. Turns are not streamed: of streamed answers vLLM does not tell where their blocks are."""
    timeout = ClientTimeout(total=options.timeout_s)
    async with ClientSession(connector=TCPConnector(limit=0), timeout=timeout) as session:
        talks = (_talk(session, options, url, number, at, answered) for number, at in enumerate(begins(options)))
        return [record for records in await asyncio.gather(*talks) for record in records]


async def _talk(
    session: ClientSession,
    options: SessionOptions,
    url: str,
    number: int,
    at: float,
    answered: Callable[[ClientRecord], None],
) -> list[ClientRecord]:
    """One conversation. It ends early where a turn fails: nothing goes on from an answer that is not there."""
    await asyncio.sleep(at)
    said, handed_back, records = list[int](), dict[str, Any](), list[ClientRecord]()
    for turn in range(options.turns):
        length = options.further_tokens if turn else options.first_tokens
        said += tokens(length, f"{options.salt} {options.seed} {number} {turn}")
        record, answer = await _ask(session, url, options, f"{options.name}-{number:04d}.{turn}", said, handed_back)
        records.append(record)
        answered(record)
        if not record.ok:
            break
        said += record.token_ids
        handed_back = answer.get("kv_transfer_params") or {}
        if turn + 1 < options.turns:
            await asyncio.sleep(options.think_s)
    return records


async def _ask(
    session: ClientSession, url: str, options: SessionOptions, name: str, said: list[int], handed_back: dict[str, Any]
) -> tuple[ClientRecord, dict[str, Any]]:
    sent = monotonic_ns()
    asked = ClientRecord(name, False, "", len(said), sent, sent)
    body = {"prompt": said, "max_tokens": options.output_tokens, "temperature": 0, "ignore_eos": True}
    body |= {"return_token_ids": True} | ({"model": options.model} if options.model else {})
    body |= {"kv_transfer_params": handed_back} if handed_back else {}
    answer: dict[str, Any] = {}
    status, error = 0, ""
    try:
        async with session.post(f"{url}/v1/completions", json=body, headers={"X-Request-Id": name}) as response:
            status = response.status
            if status == 200:
                answer = await response.json()
            else:
                error = (await response.text())[:500]
    except (ClientError, OSError, TimeoutError, ValueError) as failure:
        error = f"{type(failure).__name__}: {failure}"
    return _answered(replace(asked, end_ns=monotonic_ns(), status=status, error=error), answer), answer


def _answered(record: ClientRecord, answer: dict[str, Any]) -> ClientRecord:
    if not answer:
        return record
    try:
        choice, usage = answer["choices"][0], answer["usage"]
        ids = tuple(choice.get("token_ids") or ())
        return replace(record, output_tokens=usage["completion_tokens"], token_ids=ids, text=choice["text"])
    except (KeyError, IndexError, TypeError) as error:
        return replace(record, error=f"an answer that is no completion: {type(error).__name__}: {error}")
