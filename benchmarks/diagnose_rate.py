"""What `kvscope diagnose` takes of one core for recordings of three sizes, and whether that is linear in events.

python benchmarks/diagnose_rate.py [--requests 20000 40000 80000]
"""

from __future__ import annotations

import argparse
import resource
import time

from join_rate import recording  # type: ignore[import-not-found] # a script beside this one

from kvscope.core.critical_path import split
from kvscope.diagnosis.evidence import gather_evidence
from kvscope.diagnosis.findings import diagnose
from kvscope.diagnosis.windows import Window, compare


def measured(requests: int) -> str:
    """CPU seconds of the split and of the diagnosis, for so many requests."""
    events = recording(requests)
    begin = time.process_time()
    splits = split(events)
    halfway = time.process_time()
    evidence = gather_evidence(events, splits)
    found = diagnose(evidence, compare(evidence, Window(), None))
    end = time.process_time()
    million = len(events) / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        f"{million:6.2f} million events  split {halfway - begin:5.1f} s  diagnosis {end - halfway:5.1f} s"
        f"  {(end - begin) / million:5.2f} s a million  {peak:,.0f} MB at most  findings {len(found.findings)}"
    )


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, nargs="+", default=[20_000, 40_000, 80_000])
    for requests in parser.parse_args().requests:
        print(measured(requests), flush=True)


if __name__ == "__main__":
    main()
