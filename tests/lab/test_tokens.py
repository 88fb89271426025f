"""Stock and instrumented engines give the same tokens for the same prompts, whichever way the KV goes.

Those that write or read the KV have their worker in the scheduler's process, as a single GPU has: there the main
thread is both.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from time import monotonic

import numpy as np
import pytest

from kvscope.lab import dispatch
from kvscope.lab.engine import EngineOptions
from kvscope.lab.pair import PairOptions
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN, VALUES
from kvscope.sources.rings import read_rings
from tests.lab.rig import Body, Rig, decoding, prefilled, prompt

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

WAYS = ("early", "sequential", "pull")
TAIL = prompt(60, 9)
PROMPTS = [prompt(180, head) + TAIL for head in (1, 2, 3, 4)]
TOKENS = 12

Answers = dict[str, list[tuple[int, ...]]]


def pulling(options: EngineOptions, _role: str) -> EngineOptions:
    return replace(options, connector="pull")


def in_one_process(options: EngineOptions, _role: str) -> EngineOptions:
    """On CPU that takes a variable as well; the server stays a process of its own."""
    args = (*options.vllm_args, "--distributed-executor-backend", "uni")
    return replace(options, vllm_args=args, env={**options.env, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"})


def pulling_in_one_process(options: EngineOptions, role: str) -> EngineOptions:
    return in_one_process(pulling(options, role), role)


def tokens(rig: Rig, way: str) -> list[tuple[int, ...]]:
    """What comes of each prompt, one after the other."""
    return [tuple(answered(rig, way, f"{way}-prompt-{number}", text)) for number, text in enumerate(PROMPTS)]


def answered(rig: Rig, way: str, name: str, text: list[int]) -> list[int]:
    """The tokens of one request: p0 and d0 push, p1 and d1 pull."""
    prefill, decode = (rig["p1"], rig["d1"]) if way == "pull" else (rig["p0"], rig["d0"])
    if way == "early":
        known = dispatch.coordinates(prefilled(prefill, "coordinates", prompt(40, 8)))
        leg = decoding(decode, name, text, dispatch.early_params(known), TOKENS)
        prefilled(prefill, name, text)
    else:
        params = dispatch.sequential_params("pull" if way == "pull" else "push", prefilled(prefill, name, text))
        leg = decoding(decode, name, text, params, TOKENS)
    status, answer = leg.answer()
    assert status == 200, answer
    return ids(answer)


def ids(answer: Body) -> list[int]:
    """The token ids in an answer."""
    found: list[int] = answer["choices"][0]["token_ids"]
    assert len(found) == TOKENS
    return found


def rig(tmp_path_factory: pytest.TempPathFactory, stock: bool) -> Rig:
    """A pushing pair and, instrumented, a pulling one: four engines take minutes to start on two cores."""
    pairs = 1 if stock else 2
    options = PairOptions(connector="push", prefills=pairs, decodes=pairs, stock=stock)
    name = "stock" if stock else "instrumented"
    changes = {"p0": in_one_process, "p1": pulling, "d1": pulling_in_one_process}
    return Rig(options, tmp_path_factory.mktemp(name), changes)


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    made = rig(tmp_path_factory, stock=True)
    with made:
        answers = {way: tokens(made, way) for way in WAYS if way != "pull"}
        assert len(read_rings(made.run_dir)) == 0
    return answers


@pytest.fixture(scope="module")
def instrumented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Rig, Answers]]:
    made = rig(tmp_path_factory, stock=False)
    with made:
        yield made, {way: tokens(made, way) for way in WAYS}


@pytest.mark.parametrize("way", WAYS)
def test_the_tokens_are_the_same(stock: Answers, instrumented: tuple[Rig, Answers], way: str) -> None:
    made, answers = instrumented
    # Which way the KV goes makes no difference to the tokens, stock or not.
    assert answers[way] == stock["sequential" if way == "pull" else way]
    for number in range(len(PROMPTS)):
        split = made.of(f"{way}-prompt-{number}")
        assert (split.shape, split.complete) == ("pull" if way == "pull" else "push", True), "and were handed over"


def test_in_one_process_the_scheduler_s_thread_moves_the_kv(instrumented: tuple[Rig, Answers]) -> None:
    made, _ = instrumented
    events = read_rings(made.run_dir)
    parts = {name: {one.started["process"] for one in events.processes if one.engine == name} for name in ("p0", "d1")}
    assert parts == {"p0": {"core"}, "d1": {"core"}}
    push, pull = ({(at.leg, at.moment): at.thread for at in made.of(f"{way}-prompt-0").stamps} for way in WAYS[1:])
    assert {push["prefill", moment] for moment in ("handed", "done_seen")} == {"core"}
    assert {pull["decode", moment] for moment in ("posted", "done_seen", "noticed")} == {"core"}
    assert push["prefill", "posted"] == "writer"


def test_once_an_engine_is_idle_all_its_steps_are_told(instrumented: tuple[Rig, Answers]) -> None:
    made, _ = instrumented
    # p0 steps on until the lease of the coordinates' blocks, which nobody fetches, has run out.
    deadline, pause = monotonic() + 60, threading.Event()
    while untold := {name: told for name in ("p0", "p1", "d0", "d1") if len(told := steps_told(made, name)) > 1}:
        assert monotonic() < deadline, untold
        pause.wait(0.2)


def steps_told(rig: Rig, engine: str) -> set[int]:
    """How many steps the scheduler and the worker have told, the last they told, and the last there was: one number."""
    events = read_rings(rig.run_dir)
    members = [index for index, process in enumerate(events.processes) if process.engine == engine]
    rows = events.rows[np.isin(events.rows["process"], members)]
    steps = rows[rows["moment"] == MOMENT_CODE["step"]]
    by_worker = steps["values"][:, VALUES["step"].index("connector_ns")] != UNKNOWN
    counts = np.maximum(steps["values"][:, VALUES["step"].index("folded")], 1)
    finished = rows["step"][rows["moment"] == MOMENT_CODE["finished"]]
    told = [number for side in (by_worker, ~by_worker) for number in (counts[side].sum(), steps["step"][side].max())]
    # vLLM clears what has finished in a step that follows.
    return {int(number) for number in (*told, max(rows["step"].max(), finished.max() + 1))}


def test_they_depend_on_the_prompt_s_head_through_the_kv_alone(stock: Answers) -> None:
    """Decode computes all but the first from the KV it was given: equal tokens say that the KV was right."""
    for way, answers in stock.items():
        assert len({each[1:] for each in answers}) == len(PROMPTS), way
    assert stock["early"] == stock["sequential"]
