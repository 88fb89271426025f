"""What `whatif` says of one connector by recordings of the other, beside what was then measured.

    python benchmarks/whatif_accuracy.py [--rounds 3] [--requests 40] [--hold 250]

Two real pairs, one after the other, get the same loads, each with arrivals of its own. The router waits `--hold` ms
between the legs of the pull, so that the two differ by more than a run differs from the next; pushes are dispatched
early. For each load: TTFT as measured there, as predicted for the other way, and as measured on the other way; whether
the bounds hold that, how far they lie from their middle, and whether the middle is closer than "no change" is.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kvscope.core.critical_path import split
from kvscope.lab.load import LoadOptions, run_loads
from kvscope.lab.pair import Pair, PairOptions
from kvscope.lab.progress import Silent
from kvscope.lab.recording import passed, recording
from kvscope.sources import open_sources
from kvscope.whatif.estimate import Estimate, Wish, estimate

ASKED = {"pull": ("push", "early"), "push": ("pull", "sequential")}


def recorded(connector: str, loads: list[LoadOptions], hold_ms: float, folder: Path) -> Iterator[Path]:
    """A recording of each load."""
    paths = [folder / f"{connector}-{number}.kvs" for number in range(len(loads))]
    if all(path.exists() for path in paths):
        yield from paths
        return
    with Pair(PairOptions(connector), folder / connector, Silent()) as pair:
        router = pair.router()
        router.control(dispatch=ASKED["pull" if connector == "push" else "push"][1], hold_ms=hold_ms)
        run_loads((LoadOptions(requests=4, rate=1, arrivals="fixed", warm_up=0, seed=99),), router.url)
        for path, load in zip(paths, loads, strict=True):
            with recording(pair.run_dir, path, passed(pair.run_dir)):
                run_loads((load,), router.url)
            yield path


def of(path: Path, connector: str, hold_ms: float) -> Estimate:
    """What would be the other way, where a pull is called by a router that waits."""
    events = open_sources([path]).events
    hold_ns = round(hold_ms * 1e6) if connector == "push" else 0
    return estimate(events, split(events), Wish(*ASKED[connector], hold_ns))


def main() -> None:
    """A line for each load and way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--rate", type=float, default=1.5)
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--hold", type=float, default=250)
    parser.add_argument("--folder", type=Path, help="keep the recordings there; those that it holds are not made anew")
    given = parser.parse_args()
    shape = {"requests": given.requests, "rate": given.rate, "warm_up": 0, "output_tokens": 8}
    loads = [LoadOptions(**shape, input_tokens=((given.tokens, 1.0),), seed=seed) for seed in range(given.rounds)]
    folder = given.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    paths = {way: list(recorded(way, loads, given.hold if way == "pull" else 0.0, folder)) for way in ("pull", "push")}
    print(f"load {os.getloadavg()[0]:.1f}; p50 of TTFT, ms")
    print("from  measured  predicted          there  holds  off middle  closer than no change")
    for way, other in (("pull", "push"), ("push", "pull")):
        for mine, theirs in zip(paths[way], paths[other], strict=True):
            said, there = of(mine, way, given.hold).median, of(theirs, other, given.hold).median.measured
            holds = said.low <= there <= said.high
            off = 100 * (said.high - said.middle) / said.middle
            closer = abs(said.middle - there) < abs(said.measured - there)
            print(
                f"{way}  {said.measured / 1e6:8.1f}  {said.low / 1e6:7.1f}..{said.high / 1e6:<7.1f}  {there / 1e6:7.1f}"
                f"  {'yes' if holds else 'NO':>5}  {off:8.0f} %  {'yes' if closer else 'NO'}",
                flush=True,
            )


if __name__ == "__main__":
    main()
