"""Every benchmark of this folder, one after the other, with short settings.

python benchmarks [--engines] [--full]

--engines adds the one on real vLLM engines: some ten minutes, and figures worth having only on a quiet machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent

# Enough to see that nothing went wrong by a factor; a benchmark that is not named here runs as it is.
SHORT: dict[str, tuple[str, ...]] = {
    "event_cost": ("--rounds", "7", "--check"),
    "tracepoint_cost": ("--rounds", "7", "--calls", "2000"),
    "join_rate": ("--requests", "15000", "--rounds", "3"),
    "clock_bound": ("--seconds", "6"),
    "diagnose_rate": ("--events", "200000", "400000", "800000"),
    "read_rate": ("--rounds", "3"),
    "replay_rate": ("--minutes", "10"),
    "metrics_cost": ("--seconds", "8"),
    "long_recording": ("--events", "200000"),
    "export_rate": ("--events", "200000", "--rounds", "3"),
    "perfetto_rate": ("--events", "200000", "--rounds", "3"),
    "otlp_rate": ("--events", "200000", "--rounds", "3"),
    "share_rate": ("--minutes", "5"),
    "keep_cost": ("--blocks", "3", "--block-seconds", "3"),
    "follow_cost": ("--seconds", "4", "--rates", "1000", "20000", "--clients", "1"),
    "profile_cost": ("--rounds", "4", "--seconds", "3", "--rates", "50"),
    "profile_serving": ("--rounds", "4", "--requests", "8"),
    "serving_cost": ("--blocks", "30", "--requests", "10"),
}
ON_ENGINES = ("serving_cost", "profile_serving")


def ran(name: str, words: tuple[str, ...]) -> tuple[str, float]:
    """Run one, its output passed on; returns (how it ended, seconds)."""
    print(f"\n== {' '.join((name, *words))}", flush=True)
    begun = time.monotonic()
    code = subprocess.run([sys.executable, str(FOLDER / f"{name}.py"), *words], check=False).returncode
    return ("ok" if code == 0 else f"over a limit, or failed ({code})"), time.monotonic() - begun


def main() -> int:
    """Run them and print a line for each; 1 if one did not end well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", action="store_true", help="the one on real engines too")
    parser.add_argument("--full", action="store_true", help="with each benchmark's own settings")
    given = parser.parse_args()
    names = [path.stem for path in sorted(FOLDER.glob("*.py")) if path != Path(__file__)]
    chosen = [name for name in names if given.engines or name not in ON_ENGINES]
    results = {name: ran(name, () if given.full else SHORT.get(name, ())) for name in chosen}
    print()
    for name, (ending, seconds) in results.items():
        print(f"{name:<18}{seconds:>7.0f} s  {ending}")
    return int(any(ending != "ok" for ending, _ in results.values()))


if __name__ == "__main__":
    sys.exit(main())
