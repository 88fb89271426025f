"""`kvscope overhead`: what recording costs your own engines, by vLLM's own histograms."""

from __future__ import annotations

import argparse
import json
import threading
import time
from typing import TYPE_CHECKING

from kvscope.cli.durations import seconds, shown
from kvscope.cli.outcome import BAD_INPUT, INTERRUPTED, LAB_FAILED, OK, say
from kvscope.cli.sources_arguments import add_run_dir
from kvscope.model.counting import count
from kvscope.model.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvscope.analysis.overhead import Cost
    from kvscope.sources.alternation import Alternation, RoundSeen

HELP = "what recording costs: switches it off and on, vLLM's metrics judge"

MOST_ROUNDS = 10_000

NOT_SEEN = "  no round had requests in both its blocks; choose a longer --toggle, or send more of them"
NOT_STOCK = """\
Off is not stock vLLM: the added lines are still there, each a check of one word (some 0.1 us).
To hold stock vLLM against it, see docs/cost.md (benchmarks/serving_cost.py does it on a lab pair)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Whom, how long, who judges."""
    parser.add_argument(
        "--metrics",
        action="append",
        required=True,
        metavar="URL",
        help="an engine's metrics page, e.g. http://127.0.0.1:8000/metrics; repeat it for several engines",
    )
    parser.add_argument("--toggle", type=seconds, default=30.0, metavar="TIME", help="length of a block (default: 30s)")
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="of one block on, one off (default: 20)")
    parser.add_argument(
        "--settle", type=seconds, metavar="TIME", help="left out after each switch (default: a tenth of --toggle)"
    )
    parser.add_argument("--engine", metavar="ENGINE", help="switch this one alone: a name, or a pid (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the order within rounds and of the intervals")
    parser.add_argument("--json", action="store_true", help="the result as one JSON document (docs/cost.md)")
    add_run_dir(parser)


def run(args: argparse.Namespace) -> int:
    """0: all rounds done. 1: none of them can be used. 130: stopped; what was seen is reported if it is enough."""
    from kvscope.analysis.overhead import costs
    from kvscope.cli.record import stopping

    plan = planned(args)
    with stopping(None) as stop:
        rounds, trouble = _measured(args, plan, stop)
    if not rounds:
        if trouble:
            raise InputError(trouble)
        say("kvscope: stopped before the first round was whole")
        return INTERRUPTED
    found = costs(plan.urls, rounds, plan.seed)
    _show(args, plan, rounds, found)
    if trouble:
        say(f"kvscope: after {len(rounds)} of {plan.rounds} rounds: {trouble}")
    if trouble or not found:
        return BAD_INPUT if trouble else LAB_FAILED
    return INTERRUPTED if len(rounds) < plan.rounds else OK


def planned(args: argparse.Namespace) -> Alternation:
    """The run that the arguments ask for. InputError: none that could end in an interval."""
    from kvscope.analysis.ratio import LEAST_ROUNDS
    from kvscope.sources.alternation import Alternation
    from kvscope.sources.vllm_metrics import metrics_url

    if args.rounds < LEAST_ROUNDS:
        raise InputError(f"--rounds {args.rounds} gives no interval; it takes {LEAST_ROUNDS}, and 20 are a good number")
    if args.rounds > MOST_ROUNDS:
        raise InputError(f"--rounds {args.rounds} never ends; {MOST_ROUNDS:,} are the most, and 20 are a good number")
    if args.toggle <= 0:
        raise InputError("--toggle must be longer than nothing, and long enough for several requests, e.g. 30s")
    settle = args.toggle / 10 if args.settle is None else args.settle
    urls = tuple(dict.fromkeys(map(metrics_url, args.metrics)))
    return Alternation(urls, args.rounds, args.toggle, settle, args.seed)


def _measured(args: argparse.Namespace, plan: Alternation, stop: threading.Event) -> tuple[list[RoundSeen], str]:
    """(the rounds that were whole, what ended the run early). However it ends, the probe is as it was found."""
    from kvscope.sources.alternation import Switch, alternate, await_traffic

    rounds: list[RoundSeen] = []
    trouble = ""
    with Switch(args.run_dir, args.engine) as switch:
        await_traffic(plan.urls, max(plan.span_s, 2.0), stop)
        say(f"{plan.rounds} rounds of {plan.span_s:g} s on and off: {shown(plan.seconds)}; Ctrl-C ends and reports")
        try:
            rounds.extend(alternate(plan, switch, stop, _Progress(plan)))
        except InputError as error:
            trouble = str(error)
    return rounds, trouble


class _Progress:
    """A line for each round."""

    def __init__(self, plan: Alternation) -> None:
        self._plan, self._done, self._begun = plan, 0, time.monotonic()

    def __call__(self, seen: RoundSeen) -> None:
        self._done += 1
        left = (time.monotonic() - self._begun) / self._done * (self._plan.rounds - self._done)
        on, off = (
            sum(page["ttft"].total for page in side) / max(1, sum(page["ttft"].count for page in side)) * 1e3
            for side in (seen.on, seen.off)
        )
        say(f"round {self._done} of {self._plan.rounds}: TTFT {on:.1f} ms on, {off:.1f} ms off; {shown(left)} left")


def _show(args: argparse.Namespace, plan: Alternation, rounds: Sequence[RoundSeen], found: Sequence[Cost]) -> None:
    from kvscope.analysis.overhead import document

    if args.json:
        print(json.dumps(document(found, len(rounds), plan.span_s), indent=1))
        return
    for url in plan.urls:
        print(url)
        for cost in found:
            if cost.url == url:
                print("\n".join(lines(cost)))
        if not any(cost.url == url for cost in found):
            print(NOT_SEEN)
    print(NOT_STOCK)


def lines(cost: Cost) -> list[str]:
    """One quantity: its figures, and what they say."""
    means = (
        f"{cost.on.mean * 1e3:9.2f} ms on {cost.off.mean * 1e3:9.2f} ms off  ({cost.on.count + cost.off.count:,.0f})"
    )
    sees = f"  sees {cost.ratio.smallest_effect:.1%}" if cost.ratio else ""
    ratio = f"  on/off {_interval(cost.ratio)}  like/like {_interval(cost.same)}{sees}"
    missing = f"; {count(cost.left_out, 'round')} left out" if cost.left_out else ""
    return [f"  {cost.quantity.upper():<5}{means}{ratio}", f"       {cost.sentence}{missing}"]


def _interval(ratio: object) -> str:
    from kvscope.analysis.ratio import Ratio

    return f"{ratio.value:.4f} [{ratio.low:.4f}, {ratio.high:.4f}]" if isinstance(ratio, Ratio) else "-"
