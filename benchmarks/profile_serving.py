"""What sampling costs a real pair's clients: their times with every engine process sampled over those without.

    python benchmarks/profile_serving.py [--rounds 8] [--requests 16] [--rate 2] [--hz 50]

One push pair on this machine. A round is two blocks with the same prompts at the same times, one sampled, one not, in
an order drawn anew. A block's figure is the median over its requests. On a host whose cores are all taken by the pair
itself, what the samplers take of them is in these figures: a host with a core to spare pays less.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import median

from kvscope.analysis.ratio import Block, Round, compared
from kvscope.lab.client import ClientRecord
from kvscope.lab.load import LoadOptions
from kvscope.lab.pair import Pair, PairOptions
from kvscope.lab.progress import Plain
from kvscope.stacks import RATE_HZ
from kvscope.stacks.sampler import Sampler
from kvscope.stacks.targets import recording_in


def main() -> int:
    """Print both ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--requests", type=int, default=16, help="in a block")
    parser.add_argument("--rate", type=float, default=2.0, help="requests a second")
    parser.add_argument("--hz", type=int, default=RATE_HZ, help="samples a second")
    given = parser.parse_args()
    load = LoadOptions(given.requests, given.rate, input_tokens=((600, 1.0),), output_tokens=24, warm_up=0)
    with tempfile.TemporaryDirectory() as folder:
        rounds = measured(Path(folder), load, given.rounds, given.hz)
    print(f"{given.rounds} rounds of {given.requests} requests at {given.rate:g}/s, 600 tokens; {os.cpu_count()} cores")
    for name, pairs in zip(("TTFT", "TPOT"), zip(*rounds, strict=True), strict=True):
        ratio = compared(pairs)
        print(f"{name}  sampled at {given.hz} Hz : not  {ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})")
    return 0


def measured(folder: Path, load: LoadOptions, rounds: int, rate_hz: int) -> list[tuple[Round, Round]]:
    """(TTFT, TPOT) of each round."""
    found: list[tuple[Round, Round]] = []
    with Pair(PairOptions(connector="push"), folder / "pair", Plain()) as pair:
        url = pair.router("early").url
        pair.load(replace(load, requests=4, seed=10**6), url)
        for number in range(rounds):
            blocks: dict[bool, tuple[Block, Block]] = {}
            for sampled in random.Random(number).sample([True, False], 2):
                sampler = Sampler(recording_in(pair.run_dir), folder / f"{number}.jsonl", rate_hz)
                with sampler if sampled else nullcontext():
                    blocks[sampled] = figures(pair.load(replace(load, seed=number), url))
            (ttft, tpot), (bare_ttft, bare_tpot) = blocks[True], blocks[False]
            found.append(((ttft, bare_ttft), (tpot, bare_tpot)))
    return found


def figures(records: list[ClientRecord]) -> tuple[Block, Block]:
    """Median TTFT and time per token after the first."""
    done = [record for record in records if record.ok and len(record.token_ns) > 1]
    ttft = median(record.token_ns[0] - record.sent_ns for record in done)
    tpot = median((record.token_ns[-1] - record.token_ns[0]) / (record.output_tokens - 1) for record in done)
    return Block(ttft), Block(tpot)


if __name__ == "__main__":
    sys.exit(main())
