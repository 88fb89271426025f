"""A load: how many requests, how far apart, how long; and sending it as planned whatever the answers do."""

from __future__ import annotations

import asyncio
import math
import random
import string
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from time import monotonic_ns
from typing import Any

from aiohttp import ClientSession, ClientTimeout, TCPConnector

from kvscope.lab.client import ClientRecord, ask
from kvscope.lab.progress import Progress
from kvscope.model.counting import count
from kvscope.model.errors import InputError

WARM_UP = "warmup-"
"""What a warm-up request's id begins with."""

MOST_REQUESTS = 100_000
LEAST_RATE = 1e-6
BUNCH_S = 0.1

Mix = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class LoadOptions:
    """What is sent."""

    requests: int = 30
    rate: float = 2.0
    """Requests per second."""
    arrivals: str = "poisson"
    """Or `fixed`."""
    input_tokens: Mix = ((1000, 1.0),)
    """Prompt lengths, each with its weight."""
    output_tokens: int = 16
    warm_up: int = 3
    """Requests sent before, one after the other, marked as such."""
    seed: int = 0
    timeout_s: float = 300.0
    """After which a client gives up on a request."""
    prompts: tuple[str, ...] = ()
    """Sent in place of random ones, in turn."""
    names: tuple[str, ...] = ()
    """Request ids, in place of fresh ones, in turn."""
    bunch: int = 1
    """So many arrive together, BUNCH_S apart, each bunch when its last would be due; only of fixed arrivals."""
    delay_s: float = 0.0
    """After the begin of the load that it is sent beside."""
    model: str = ""
    """Its name, for routers that want one."""


@dataclass(frozen=True)
class Planned:
    """A request to be sent."""

    at_s: float
    """After the load's begin."""
    prompt: str
    name: str = ""
    """Its id; empty: a fresh one."""


def mix(text: str) -> Mix:
    """Parse `500,1000x3,2000`: lengths, each with an optional weight. InputError: something else."""
    parts = []
    for part in text.split(","):
        length, times, weight = part.strip().partition("x")
        try:
            parts.append((int(length), float(weight) if times else 1.0))
        except ValueError:
            raise InputError(f"{part!r} is not a prompt length such as 1000 or 1000x3 (in {text!r})") from None
    if not all(length > 0 and 0 < weight < math.inf for length, weight in parts):
        raise InputError(f"prompt lengths and weights must be positive (in {text!r})")
    return tuple(parts)


def arrivals(options: LoadOptions) -> Iterator[float]:
    """Seconds after the begin at which requests arrive; the first at 0. InputError: options that cannot be."""
    if options.arrivals not in ("poisson", "fixed") or not options.rate >= LEAST_RATE:
        raise InputError(f"arrivals are poisson or fixed at a rate above 0, not {options.arrivals} at {options.rate}")
    chance = random.Random(options.seed)
    at = 0.0
    for number in range(options.requests):
        place = number % options.bunch
        yield at - place / options.rate + place * BUNCH_S if options.bunch > 1 else at
        at += chance.expovariate(options.rate) if options.arrivals == "poisson" else 1 / options.rate


def plan(options: LoadOptions) -> list[Planned]:
    """The requests of a load: the same for the same seed. InputError: options that cannot be."""
    if min(options.requests, options.output_tokens) < 1 or options.warm_up < 0:
        raise InputError("a load has at least one request, of at least one output token, and no negative warm-up")
    if options.requests > MOST_REQUESTS:
        raise InputError(f"a load of {options.requests} requests is held in memory; {MOST_REQUESTS:,} are the most")
    chance = random.Random(f"prompts {options.seed}")
    lengths, weights = zip(*options.input_tokens, strict=True)
    drawn = chance.choices(lengths, weights, k=options.requests)
    prompts = [prompt(length, f"{options.seed} {number}") for number, length in enumerate(drawn)]
    if options.prompts:
        prompts = [options.prompts[number % len(options.prompts)] for number in range(options.requests)]
    names = [options.names[number % len(options.names)] if options.names else "" for number in range(options.requests)]
    return [Planned(at, *each) for at, *each in zip(arrivals(options), prompts, names, strict=True)]


def prompt(tokens: int, seed: str) -> str:
    """Random letters: one token each under a byte-level tokenizer, and no common beginning to be cached."""
    return "".join(random.Random(seed).choices(string.ascii_letters, k=tokens))


def run_load(options: LoadOptions, url: str, progress: Progress) -> list[ClientRecord]:
    """Warm up, then send the load; returns all records, warm-up first, in the order sent."""
    return asyncio.run(_run(options, url, progress))


def run_loads(loads: Sequence[LoadOptions], url: str) -> list[ClientRecord]:
    """Send several loads beside each other, each after its delay, none with a warm-up; returns all records."""
    return beside([send(each, url) for each in loads])


def beside(loads: Sequence[Coroutine[Any, Any, list[ClientRecord]]]) -> list[ClientRecord]:
    """Run what sends loads, all at once; returns all records."""
    return asyncio.run(_beside(loads))


async def _beside(loads: Sequence[Coroutine[Any, Any, list[ClientRecord]]]) -> list[ClientRecord]:
    return [record for records in await asyncio.gather(*loads) for record in records]


async def send(
    options: LoadOptions, url: str, answered: Callable[[ClientRecord], None] = lambda _: None
) -> list[ClientRecord]:
    """Send one load after its delay, without a warm-up. `answered` is told of each answer."""
    timeout = ClientTimeout(total=options.timeout_s)
    async with ClientSession(connector=TCPConnector(limit=0), timeout=timeout) as session:
        await asyncio.sleep(options.delay_s)
        return await _send(session, options, url, answered)


async def _run(options: LoadOptions, url: str, progress: Progress) -> list[ClientRecord]:
    timeout = ClientTimeout(total=options.timeout_s)
    async with ClientSession(connector=TCPConnector(limit=0), timeout=timeout) as session:
        progress.phase(f"warm up with {count(options.warm_up, 'request')}")
        warm = await _warm_up(session, options, url)
        progress.phase(f"send {count(options.requests, 'request')} at {options.rate:g}/s ({options.arrivals})")
        records = await _send(session, options, url, _Heard(progress, options.requests))
    progress.finish()
    return warm + records


async def warm_up(options: LoadOptions, url: str) -> list[ClientRecord]:
    """Send its warm-up alone, one request after the other."""
    async with ClientSession(timeout=ClientTimeout(total=options.timeout_s)) as session:
        return await _warm_up(session, options, url)


async def _warm_up(session: ClientSession, options: LoadOptions, url: str) -> list[ClientRecord]:
    records = []
    for number in range(options.warm_up):
        length = options.input_tokens[number % len(options.input_tokens)][0]
        asked = _asked(prompt(length, f"warm-up {options.seed} {number}"), monotonic_ns(), warm_up=True)
        records.append(await ask(session, url, asked, options.output_tokens, options.model))
    return records


class _Heard:
    """Shows how many answers there are."""

    def __init__(self, progress: Progress, requests: int) -> None:
        self._progress, self._requests, self._finished, self._failed = progress, requests, 0, 0

    def __call__(self, record: ClientRecord) -> None:
        self._finished, self._failed = self._finished + record.ok, self._failed + (not record.ok)
        self._progress.detail(f"{self._finished} of {self._requests} finished, {self._failed} failed")


async def _send(
    session: ClientSession, options: LoadOptions, url: str, answered: Callable[[ClientRecord], None]
) -> list[ClientRecord]:
    begin = monotonic_ns()

    async def one(planned: Planned) -> ClientRecord:
        due = begin + int(planned.at_s * 1e9)
        await asyncio.sleep(max(0.0, (due - monotonic_ns()) / 1e9))
        asked = _asked(planned.prompt, due, warm_up=False, name=planned.name)
        record = await ask(session, url, asked, options.output_tokens, options.model)
        answered(record)
        return record

    return await asyncio.gather(*(one(planned) for planned in plan(options)))


def _asked(text: str, due: int, warm_up: bool, name: str = "") -> ClientRecord:
    name = name or (WARM_UP if warm_up else "") + uuid.uuid4().hex
    return ClientRecord(name, warm_up, text, len(text), due, due)


def only_measured(records: list[ClientRecord]) -> list[ClientRecord]:
    """Those that are not warm-up."""
    return [record for record in records if not record.warm_up]


def with_prompts(options: LoadOptions, *prompts: str) -> LoadOptions:
    """A load that sends these prompts, once each."""
    return replace(options, prompts=prompts, requests=len(prompts))
