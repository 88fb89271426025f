"""What instrumentation costs a client: TTFT and TPOT of a real pair, instrumented over stock, in one run.

python benchmarks/serving_cost.py [--blocks 120] [--requests 12] [--rate 2] [--connector push]

Three pairs are up at once (about 19 GB): stock, instrumented, and stock again, because two starts of the same
build differ a little, and that is no cost of instrumentation. While one is measured, the processes of the others
are stopped (SIGSTOP), so that going from one to the next takes no time. A round is a block on each pair, in random
order. Instrumented over stock gives the ratio, stock over stock its equal for no difference at all. Each block of
a round sends the same prompts at the same times.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from kvscope.analysis.ratio import LEAST_ROUNDS, Block, Ratio, compared
from kvscope.cli import outcome
from kvscope.cli.endings import ended_by_signals
from kvscope.lab.client import ClientRecord
from kvscope.lab.errors import LabError
from kvscope.lab.load import LoadOptions, only_measured, run_load
from kvscope.lab.pair import Pair, PairOptions
from kvscope.lab.progress import Plain, Silent
from kvscope.model.errors import InputError

HIGHEST = 1.05
WIDEST = 1.5
STOCK, TESTED, AGAIN = "stock", "instrumented", "stock again"
# After the last answer prefill still frees blocks: it should not wake up to that in its next block.
SETTLE_S = 0.5
PER_ROUND = (STOCK, TESTED, AGAIN)


@dataclass(frozen=True)
class Seen:
    """What a client saw in one block: medians over its requests, in seconds."""

    ttft: float
    tpot: float
    requests: int


class Bench:
    """A pair and its router, running only while it is measured."""

    def __init__(self, name: str, pair: Pair, url: str) -> None:
        self.name, self._pair, self._url = name, pair, url

    def measure(self, load: LoadOptions) -> Seen:
        """Let its processes run, send a load, stop them. LabError: a request failed: the block is worthless."""
        self.resume()
        records = run_load(load, self._url, Silent())
        time.sleep(SETTLE_S)
        self._signal(signal.SIGSTOP)
        return seen(self.name, only_measured(records))

    def resume(self) -> None:
        """Let its processes run for good: stopped ones could not put their pieces down."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for engine in self._pair.engines:
            for pid in engine.process.members():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)


def seen(name: str, records: Sequence[ClientRecord]) -> Seen:
    """The medians of a block."""
    for record in records:
        if not record.ok:
            raise LabError(f"a request to the {name} pair failed: {record.error or record.status}")
    ttfts = [record.token_ns[0] - record.sent_ns for record in records]
    tpots = [(record.token_ns[-1] - record.token_ns[0]) / (record.output_tokens - 1) for record in records]
    return Seen(statistics.median(ttfts) / 1e9, statistics.median(tpots) / 1e9, len(records))


def started(stack: ExitStack, name: str, options: PairOptions, dispatch: str) -> Bench:
    """A pair with its router, ready and stopped."""
    print(f"the {name} pair:", file=sys.stderr)
    pair = stack.enter_context(Pair(options, progress=Plain()))
    bench = Bench(name, pair, pair.router(dispatch).url)
    stack.callback(bench.resume)
    bench.measure(LoadOptions(requests=4, output_tokens=8))
    return bench


def rounds_of(benches: Mapping[str, Bench], given: argparse.Namespace) -> Iterator[dict[str, Seen]]:
    """Measure round after round."""
    order = random.Random(given.seed)
    for number in range(given.blocks // len(PER_ROUND)):
        load = LoadOptions(
            requests=given.requests,
            rate=given.rate,
            arrivals="fixed",
            input_tokens=((given.input_tokens, 1.0),),
            output_tokens=given.output_tokens,
            warm_up=2,
            seed=given.seed + number,
        )
        blocks = order.sample(PER_ROUND, len(PER_ROUND))
        found = {block: benches[block].measure(load) for block in blocks}
        told = ", ".join(f"{block} {found[block].ttft * 1e3:.0f}/{found[block].tpot * 1e3:.1f}" for block in blocks)
        print(f"round {number + 1}: TTFT/TPOT ms: {told}", file=sys.stderr, flush=True)
        yield found


@dataclass(frozen=True)
class Verdict:
    """What came of one quantity."""

    quantity: str
    stock: float
    """Seconds: median over the stock blocks."""
    tested: Ratio
    same: Ratio
    """Stock over stock, from as many blocks."""

    @property
    def passed(self) -> bool:
        """Whether the cost is small enough, and the run steady enough to say so."""
        return self.tested.high <= HIGHEST and self.tested.width <= WIDEST * self.same.width

    def line(self) -> str:
        """The figures in one line."""
        return (
            f"{self.quantity.upper()}  {self.stock * 1e3:7.1f} ms stock   x {shown(self.tested)}"
            f"   stock/stock {shown(self.same)}   sees {self.tested.smallest_effect:.1%}"
            f"   widths {self.tested.width / self.same.width:.2f}   {'pass' if self.passed else 'FAIL'}"
        )

    def told(self) -> dict[str, object]:
        """Everything, for JSON."""
        return {**asdict(self), "smallest_effect": self.tested.smallest_effect, "passed": self.passed}


def shown(ratio: Ratio) -> str:
    """A ratio and its interval."""
    return f"{ratio.value:.4f} [{ratio.low:.4f}, {ratio.high:.4f}]"


def verdict(quantity: str, rounds: Sequence[Mapping[str, Seen]], seed: int) -> Verdict:
    """Compare the blocks of each round."""
    figures = [{block: Block(getattr(seen, quantity)) for block, seen in found.items()} for found in rounds]
    tested, same = (compared([(each[block], each[STOCK]) for each in figures], seed) for block in (TESTED, AGAIN))
    return Verdict(quantity, statistics.median(each[STOCK].mean for each in figures), tested, same)


def measure(given: argparse.Namespace) -> int:
    """Start the pairs, alternate, print; 0 if both quantities pass."""
    with ended_by_signals(), ExitStack() as stack:
        benches = {}
        for name in PER_ROUND:
            options = PairOptions(connector=given.connector, stock=name != TESTED)
            benches[name] = started(stack, name, options, given.dispatch)
        rounds = list(rounds_of(benches, given))
    found = [verdict(quantity, rounds, given.seed) for quantity in ("ttft", "tpot")]
    print(
        f"\ninstrumented over stock, {given.connector} {given.dispatch}, {len(rounds)} rounds of 3 x {given.requests}"
    )
    for each in found:
        print(each.line())
    print(f"passes: upper end <= {HIGHEST}, and no wider than {WIDEST} x stock/stock")
    if given.output:
        blocks = [{name: asdict(block) for name, block in each.items()} for each in rounds]
        told = {"options": vars(given), "verdicts": [each.told() for each in found], "rounds": blocks}
        given.output.write_text(json.dumps(told, indent=1, default=str))
    return 0 if all(each.passed for each in found) else 1


def main() -> int:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=120, help="in all, three to a round")
    parser.add_argument("--requests", type=int, default=12, help="in a block")
    parser.add_argument("--rate", type=float, default=2.0, help="requests per second")
    parser.add_argument("--input-tokens", type=int, default=1000)
    parser.add_argument("--output-tokens", type=int, default=24)
    parser.add_argument("--connector", choices=("push", "pull"), default="push")
    parser.add_argument("--dispatch", choices=("early", "sequential"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="every block, as JSON")
    given = parser.parse_args()
    given.dispatch = given.dispatch or ("early" if given.connector == "push" else "sequential")
    if given.blocks // len(PER_ROUND) < LEAST_ROUNDS:
        raise InputError(f"--blocks {given.blocks}: it takes {LEAST_ROUNDS} rounds of {len(PER_ROUND)}")
    return measure(given)


if __name__ == "__main__":
    sys.exit(outcome.guarded(main))
