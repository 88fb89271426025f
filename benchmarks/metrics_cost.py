"""What it costs to add events up for Prometheus, beside reading them; and what a scrape costs.

    python benchmarks/metrics_cost.py [--rates 1000 20000] [--seconds 20] [--engines 200]

Batches of half a second, as `kvscope serve` takes them, go through the loop that it runs. Both parts are CPU time of
one run, so that their ratio is of the same machine in the same state. Draining the rings is not among what is read.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import partial

from join_rate import DECODE, PREFILL, Fleet, recording  # type: ignore[import-not-found] # a script beside this one

from kvscope.live.feed import Batch
from kvscope.metrics.catalogue import ROOM, most_series
from kvscope.metrics.exposition import Exporter
from kvscope.metrics.labels import ENGINE, GROUP, Scope
from kvscope.metrics.reading import INTERVAL_S, Reading
from kvscope.metrics.tables import Histogram
from kvscope.metrics.telling import Told
from kvscope.model.events import Events
from kvscope.probe.vocabulary import UNKNOWN

PER_REQUEST = len(PREFILL) + len(DECODE) + 1
FEW = 4
"""Pairs of engines, of the first lines."""
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def main() -> None:
    """A line for each rate, then the scrape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, nargs="+", default=[1000, 20000], metavar="EVENTS_PER_S")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--engines", type=int, default=200)
    given = parser.parse_args()
    print("engines   events/s   reading, us/event   metrics, us/event   metrics/reading   of a core")
    for engines in (2 * FEW, given.engines):
        for rate in given.rates:
            reading, events, read, added = run(served(rate, given.seconds, engines // 2))
            core = (read + added) / (given.seconds * 1e9)
            each = [ns / events / 1e3 for ns in (read, added)]
            print(
                f"{engines:>7}   {rate:>8}   {each[0]:>17.2f}   {each[1]:>17.2f}   {added / read:>15.2f}   {core:>9.1%}"
            )
    told = reading.told()
    for what, page in ((f"{given.engines} engines", told), ("everything that can happen", filled(told))):
        for name, accept, encoding in (("text", "", ""), ("OpenMetrics", OPENMETRICS, ""), ("text, gzip", "", "gzip")):
            scrape(Exporter(partial(copy, page)), f"{what}, {name}", accept, encoding)


def served(rate: int, seconds: float, pairs: int) -> Events:
    """So many events a second, of prompts of several lengths on engines that said what they are."""
    requests = round(rate * seconds / PER_REQUEST)
    made: Events = recording(requests, Fleet(pairs, round(PER_REQUEST * 1e9 / rate), (300, 1000, 4000, 20000)))
    facts = {"model": "m", "connector": "NixlPushConnector", "dp_rank": 0, "kv_blocks": 4096, "vllm": "0.32.0"}
    return replace(made, processes=tuple(replace(process, started=facts) for process in made.processes))


def batches(events: Events) -> Iterator[Batch]:
    """Half a second each, then the time in which the last requests settle."""
    t, step = events.rows["t"], round(INTERVAL_S * 1e9)
    now = int(t.min())
    while now < t.max() + 4_000_000_000:
        part = events.rows[(t >= now) & (t < now + step)]
        now += step
        yield Batch(Events(part, events.processes, events.texts), now, 0)


def run(events: Events) -> tuple[Reading, int, float, float]:
    """(the loop, events, ns of reading, ns of metrics)."""
    parts = batches(events)
    reading = Reading(lambda: next(parts), since=UNKNOWN)
    try:
        while True:
            reading.step()
    except StopIteration:
        pass
    table = reading.told().store.table("reader_cpu_seconds_total")
    read, added = table.values[0].tolist()
    return reading, len(events), read, added


def filled(told: Told) -> Told:
    """The same with a number in every place that has one, for as many engines, groups and pairs as are told by name."""
    store = told.store.copied()
    for table in store:
        if isinstance(table, Histogram):
            table.counts[:], table.sums[:] = 1234, 56_789_012_345
            told_of = [i for i, labels in enumerate(table.metric.columns) if "hidden" not in labels]
            if table.metric.name != "kvscope_class_seconds":
                table.exemplars.id[:, told_of] = LONG_ID
        else:
            table.values[:] = 1.23456789e12
    most = {ENGINE: ENGINE.most, GROUP: max(n for n in range(GROUP.most) if most_series(groups=n) <= ROOM)}
    rows = {scope: [*range(most.get(scope, scope.most)), scope.most] for scope in told.labels}
    labels = {scope: {row: labels_of(scope, row) for row in found} for scope, found in rows.items()}
    return replace(told, store=store, labels=labels, judged=True)


LONG_ID = f"chatcmpl-{32 * 'f'}-0-{8 * 'a'}"
LENGTHS = {"model_name": "meta-llama/Llama-3.3-70B-Instruct", "connector": "NixlPushConnector", "engine": "0"}
"""As long as they usually are."""


def labels_of(scope: Scope, row: int) -> tuple[str, ...]:
    """Some of the usual length, each set another."""
    names = [LENGTHS.get(name, f"decode-{row}.decode.serving.svc:5600") for name in scope.labels]
    return (*names[:-1], f"{names[-1]}{row}")


def scrape(exporter: Exporter, name: str, accept: str, encoding: str) -> None:
    """What one page costs."""
    begun = time.process_time()
    page = exporter.page(accept, encoding)
    took = time.process_time() - begun
    series = "" if encoding else f", {page.body.count(chr(10).encode() + b'kvscope_'):,} series"
    print(f"scrape of {name}: {1e3 * took:.0f} ms, {len(page.body) / 1e6:.2f} MB{series}")


if __name__ == "__main__":
    main()
