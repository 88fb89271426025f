"""The router between real sockets: order of the legs, what they carry, what becomes of trouble."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

from kvscope.lab.client import ClientRecord, ask
from kvscope.lab.dispatch import PLACEHOLDER, Conduct
from kvscope.lab.front import RouterProcess
from kvscope.lab.load import LoadOptions, run_load
from kvscope.lab.progress import Silent
from kvscope.lab.router import Router, application
from kvscope.model.errors import InputError
from kvscope.probe.vocabulary import MOMENTS
from kvscope.sources.rings import read_rings

from .engines import FakeEngine, serving

Asking = Callable[[], Awaitable[ClientRecord]]


@asynccontextmanager
async def through(router: Router) -> AsyncIterator[Asking]:
    """A function that sends a request through `router`."""
    async with TestServer(application(router)) as server, ClientSession() as session:
        url, numbers = str(server.make_url("")).rstrip("/"), itertools.count()

        async def asking() -> ClientRecord:
            return await ask(session, url, ClientRecord(f"r{next(numbers)}", False, "text", 4, 0, 0), 2)

        yield asking


@asynccontextmanager
async def routed(conduct: Conduct, connector: str = "push") -> AsyncIterator[tuple[FakeEngine, FakeEngine, Asking]]:
    """Prefill, decode, and a function that sends a request through a router in front of them."""
    async with AsyncExitStack() as up:
        prefill, decode = FakeEngine(), FakeEngine()
        await up.enter_async_context(serving(prefill, prefill.prefill))
        await up.enter_async_context(serving(decode, decode.decode))
        yield (
            prefill,
            decode,
            await up.enter_async_context(through(Router(connector, [prefill.url], [decode.url], conduct))),
        )


def run(scene: Callable[[], Awaitable[None]]) -> None:
    """Run an async test body."""

    async def body() -> None:
        await asyncio.wait_for(scene(), 30)

    asyncio.run(body())


@pytest.mark.parametrize("connector", ["push", "pull"])
def test_sequentially_decode_is_called_with_what_prefill_returned(connector: str) -> None:
    async def scene() -> None:
        async with routed(Conduct(), connector) as (prefill, decode, asking):
            prefill.go.clear()
            answer = asyncio.ensure_future(asking())
            await prefill.arrived.wait()
            assert not decode.seen
            prefill.go.set()
            record = await answer
            assert record.ok, record.error
            assert (record.token_ids, record.output_tokens) == ((7, 8), 2)
            assert prefill.seen[0].request == decode.seen[0].request == "r0"
            params = decode.seen[0].body["kv_transfer_params"]
            assert params["remote_request_id"] == "cmpl-r0-0-abcdef01"
            assert ("remote_block_ids" in params) == (connector == "pull")

    run(scene)


def test_early_both_legs_are_out_before_either_answers_once_the_engine_is_known() -> None:
    async def scene() -> None:
        async with routed(Conduct("early")) as (prefill, decode, asking):
            assert (await asking()).ok
            assert decode.seen[0].body["kv_transfer_params"]["remote_request_id"] != PLACEHOLDER, "not known yet"
            prefill.go.clear()
            decode.go.clear()
            prefill.arrived.clear()
            decode.arrived.clear()
            answer = asyncio.ensure_future(asking())
            await asyncio.gather(prefill.arrived.wait(), decode.arrived.wait())
            params = decode.seen[1].body["kv_transfer_params"]
            assert (params["remote_request_id"], params["remote_engine_id"]) == (PLACEHOLDER, "E1")
            prefill.go.set()
            decode.go.set()
            assert (await answer).ok

    run(scene)


def test_a_restarted_prefill_engine_is_learned_anew_from_its_next_answer() -> None:
    async def scene() -> None:
        async with routed(Conduct("early")) as (prefill, decode, asking):
            await asking()
            prefill.epoch = "E2"
            await asking()
            await asking()
            told = [leg.body["kv_transfer_params"]["remote_engine_id"] for leg in decode.seen]
            assert told == ["E1", "E1", "E2"]

    run(scene)


@pytest.mark.parametrize("dispatch", ["early", "sequential"])
def test_a_prefill_error_reaches_the_client_and_decode_is_not_left_waiting(dispatch: str) -> None:
    async def scene() -> None:
        async with routed(Conduct(dispatch)) as (prefill, decode, asking):
            await asking()
            decode.go.clear()
            prefill.status = 503
            record = await asking()
            assert record.status == 503
            assert "prefill is broken" in record.error
            if dispatch == "early":
                await decode.gone.wait()
            assert len(decode.seen) == (2 if dispatch == "early" else 1)

    run(scene)


@pytest.mark.parametrize("dispatch", ["early", "sequential"])
def test_a_decode_error_reaches_the_client(dispatch: str) -> None:
    async def scene() -> None:
        async with routed(Conduct(dispatch)) as (_, decode, asking):
            await asking()
            decode.status = 500
            record = await asking()
            assert (record.status, record.error) == (500, "decode is broken")

    run(scene)


@pytest.mark.parametrize("dead", ["prefill", "decode"])
def test_an_engine_that_is_not_there_is_named(dead: str) -> None:
    async def scene() -> None:
        engine = FakeEngine()
        async with serving(engine, engine.prefill):
            pass
        living = FakeEngine()
        async with AsyncExitStack() as up:
            await up.enter_async_context(serving(living, living.prefill))
            urls = (engine.url, living.url) if dead == "prefill" else (living.url, engine.url)
            asking = await up.enter_async_context(through(Router("push", urls[:1], urls[1:], Conduct())))
            record = await asking()
            assert record.status == 502
            assert f"{dead} engine {engine.url}" in record.error

    run(scene)


@pytest.mark.parametrize("dispatch", ["early", "sequential"])
def test_a_client_that_goes_away_takes_its_legs_with_it(dispatch: str) -> None:
    async def scene() -> None:
        async with routed(Conduct(dispatch)) as (_, decode, asking):
            await asking()
            decode.go.clear()
            decode.arrived.clear()
            answer = asyncio.ensure_future(asking())
            await decode.arrived.wait()
            answer.cancel()
            await decode.gone.wait()

    run(scene)


def test_a_dropped_decode_leg_is_never_sent_and_a_renamed_one_no_longer_matches() -> None:
    async def scene() -> None:
        async with routed(Conduct(drop="decode")) as (prefill, decode, asking):
            assert (await asking()).status == 502
            assert (len(prefill.seen), len(decode.seen)) == (1, 0)
        async with routed(Conduct(rename="-x")) as (prefill, decode, asking):
            await asking()
            assert (prefill.seen[0].request, decode.seen[0].request) == ("r0", "r0-x")

    run(scene)


def test_a_dropped_prefill_leg_leaves_decode_alone_until_the_client_gives_up() -> None:
    async def scene() -> None:
        async with routed(Conduct("early")) as (prefill, decode, asking):
            await asking()
        async with routed(Conduct("sequential", drop="prefill")) as (prefill, decode, asking):
            answer = asyncio.ensure_future(asking())
            await asyncio.wait({answer}, timeout=0.1)
            assert not prefill.seen
            assert not decode.seen
            answer.cancel()

    run(scene)


def test_the_router_process_reports_its_moments_and_changes_its_conduct(tmp_path: Path, run_dir: Path) -> None:
    async def scene() -> None:
        prefill, decode = FakeEngine(), FakeEngine()
        async with serving(prefill, prefill.prefill), serving(decode, decode.decode):
            router = RouterProcess("push", [prefill.url], [decode.url], tmp_path / "log", run_dir=run_dir)
            try:
                await asyncio.to_thread(router.start)
                assert (await asyncio.to_thread(lambda: router.control(dispatch="early")))["dispatch"] == "early"
                with pytest.raises(InputError, match="drop"):
                    await asyncio.to_thread(lambda: router.control(drop="both"))
                load = LoadOptions(requests=3, rate=100, input_tokens=((4, 1),), warm_up=1)
                records = await asyncio.to_thread(run_load, load, router.url, Silent())
            finally:
                await asyncio.to_thread(router.process.stop)
        assert [record.warm_up for record in records] == [True, False, False, False]
        assert all(record.ok for record in records)
        check_moments(run_dir, [record.request for record in records])

    run(scene)


def check_moments(run_dir: Path, requests: list[str]) -> None:
    events = read_rings(run_dir)
    assert [process.started["dispatch"] for process in events.processes] == ["early"]
    for request in requests:
        rows = sorted(
            (int(row["t"]), MOMENTS[row["moment"]])
            for row in events.rows
            if events.texts[int(row["request"])] == request
        )
        names = [name for _, name in rows]
        assert names[:2] == ["received", "prefill_sent"]
        assert sorted(names) == sorted(["received", "prefill_sent", "prefill_returned", "decode_sent", "first_byte"])


def test_an_engine_that_dies_in_mid_stream_ends_the_client_s_stream_too() -> None:
    async def scene() -> None:
        prefill = FakeEngine()

        async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n")
            await writer.drain()
            writer.close()

        dying = await asyncio.start_server(cut, "127.0.0.1", 0)
        decode = f"http://127.0.0.1:{dying.sockets[0].getsockname()[1]}"
        async with dying, AsyncExitStack() as up:
            await up.enter_async_context(serving(prefill, prefill.prefill))
            record = await (await up.enter_async_context(through(Router("push", [prefill.url], [decode], Conduct()))))()
            assert not record.ok
            assert record.error

    run(scene)


def test_a_router_that_strips_or_misnames_does_so_to_the_decode_leg_alone() -> None:
    async def scene() -> None:
        for conduct in (Conduct(strip=True), Conduct(misname="cmpl-other-0-00000000")):
            async with routed(conduct, "pull") as (prefill, decode, asking):
                assert (await asking()).ok
                params = decode.seen[0].body.get("kv_transfer_params")
                assert (params or {}).get("remote_request_id") == conduct.misname
                assert (params is None) == conduct.strip
                assert prefill.seen[0].body["kv_transfer_params"]["do_remote_decode"] is True

    run(scene)
