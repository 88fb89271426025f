"""Draw the dashboards as pictures: `python -m docs.pictures.dashboards` (needs prometheus and promtool).

The recordings that lie here are told to `kvscope serve`'s exporter second by second, one after the other: router early,
late, and pull. promtool puts what it said into the database of a real Prometheus, which answers the panels' queries.
No Grafana is asked: the drawing is our own, from the JSON in dashboards/.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from docs.pictures.panels import Answer, Series, board_svg
from kvscope.analysis.objectives import parse_objectives
from kvscope.dashboards.boards import BOARDS
from kvscope.dashboards.document import document
from kvscope.lab.ports import free_ports
from kvscope.live.feed import Batch
from kvscope.metrics.exposition import Exporter
from kvscope.metrics.reading import Reading
from kvscope.model.events import Events
from kvscope.sources.opening import open_all

HERE = Path(__file__).parent
PLAYED = ("push-sequential", "push-early", "pull")
SLO = "ttft=400ms,tpot=30ms"
SECOND = 10**9
BEGIN_S = 1_790_000_000
AFTER_S = 8
"""Of each recording's time after its last event: what is over is counted by then."""
WINDOW_S, STEP_S = 10, 1
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
SAMPLE = re.compile(r"^([a-z_:]+(?:\{.*?\})?) (\S+)", re.M)
GROWING = re.compile(r"_(?:total|bucket|sum|count)(?:\{|$)")
PATIENCE_S = 30.0


def pages(path: Path, begin_s: int) -> Iterator[tuple[int, str]]:
    """(second since 1970, what a scrape would have said)"""
    events = open_all([path], None).events
    t = events.rows["t"]
    first, last = int(t.min()), int(t.max()) + AFTER_S * SECOND
    edges = range(first, last, SECOND)
    parts = [Batch(Events(events.rows[(t >= at) & (t < at + SECOND)], events.processes, events.texts), at + SECOND,
                   begin_s * SECOND - first) for at in edges]  # fmt: skip
    reading = Reading(iter(parts).__next__, parse_objectives(SLO))
    exporter = Exporter(reading.told)
    for number in range(len(parts)):
        reading.step()
        yield begin_s + number + 1, exporter.page(OPENMETRICS).body.decode()


def history() -> tuple[str, int]:
    """All recordings one after the other, as OpenMetrics with times; and the second in which they end.

    What a recording counts is told as 0 in the second before it: a rate does not see the first value of a new series.
    """
    lines, at = [], BEGIN_S
    for name in PLAYED:
        told = list(pages(HERE / f"{name}.kvs", at))
        lines += [f"{series} 0 {at}" for series, _ in SAMPLE.findall(told[-1][1]) if GROWING.search(series)]
        lines += [f"{series} {value} {second}" for second, page in told for series, value in SAMPLE.findall(page)]
        at = told[-1][0] + 1
    return "\n".join((*lines, "# EOF\n")), at - 1


class Prometheus:
    """Answers queries about what it was given."""

    def __init__(self, url: str, end_s: int) -> None:
        self._url, self.end = url, end_s

    def asked(self, path: str, **words: object) -> list[dict[str, Any]]:
        """The series of an answer."""
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(url, timeout=30) as response:
            return list(json.load(response)["data"]["result"])

    def panel(self, panel: dict[str, Any]) -> list[Answer]:
        """What each query of a panel gives: one value of each series, or all of them."""
        return [self._answer(target) for target in panel.get("targets", ())]

    def _answer(self, target: dict[str, Any]) -> Answer:
        query = put(target["expr"], f"{self.end - BEGIN_S}s")
        if target.get("instant"):
            found = self.asked("query", query=query, time=self.end)
            rows: list[Series] = [(each["metric"], [(self.end, float(each["value"][1]))]) for each in found]
        else:
            found = self.asked("query_range", query=query, start=BEGIN_S, end=self.end, step=STEP_S)
            rows = [(each["metric"], [(at, float(value)) for at, value in each["values"]]) for each in found]
        return Answer(target["legendFormat"], rows)


def put(expr: str, whole: str) -> str:
    """A query with everything chosen that is not chosen yet."""
    for name, value in {"$__rate_interval": f"{WINDOW_S}s", "$__range": whole}.items():
        expr = expr.replace(name, value)
    return re.sub(r"\$(model|connector|engine|prompt|stage)", ".*", expr)


def repeated(panel: dict[str, Any], connectors: list[str]) -> list[dict[str, Any]]:
    """The panel, or one for each connector beside each other."""
    if panel.get("repeat") != "connector":
        return [panel]
    wide = panel["gridPos"]["w"] // len(connectors)
    found = []
    for number, connector in enumerate(connectors):
        one = json.loads(json.dumps(panel).replace("$connector", connector))
        found.append({**one, "gridPos": {**panel["gridPos"], "w": wide, "x": number * wide}})
    return found


@contextmanager
def prometheus() -> Iterator[Prometheus]:
    """A real one, with the history in its database."""
    text, end = history()
    with tempfile.TemporaryDirectory(prefix="kvscope-pictures-") as made:
        folder = Path(made)
        (folder / "history").write_text(text)
        (folder / "prometheus.yml").write_text("{}")
        blocks = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "history", "data"]
        subprocess.run(blocks, cwd=folder, check=True, capture_output=True)
        port = free_ports(1)[0]
        command = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                   "--storage.tsdb.retention.time=100y", f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            found = Prometheus(f"http://127.0.0.1:{port}", end)
            _wait(found)
            yield found
        finally:
            process.terminate()
            process.wait()


def _wait(server: Prometheus) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            if server.asked("query", query="kvscope_build_info", time=BEGIN_S + 5):
                return
        except (urllib.error.URLError, OSError):
            pass  # it is starting
        time.sleep(0.2)
    raise SystemExit(f"Prometheus does not answer within {PATIENCE_S:.0f} s")


def main() -> None:
    """All dashboards, or those whose names are given."""
    with prometheus() as server:
        counted = server.asked(
            "query",
            query=f"count by (connector) (max_over_time(kvscope_ttft_seconds_count[{server.end - BEGIN_S}s]) > 0)",
            time=server.end,
        )
        connectors = sorted({each["metric"]["connector"] for each in counted})
        for board in BOARDS:
            if sys.argv[1:] and board.key not in sys.argv[1:]:
                continue
            panels = [one for panel in document(board)["panels"] for one in repeated(panel, connectors)]
            drawn = board_svg(board.title, [(panel, server.panel(panel)) for panel in panels], (BEGIN_S, server.end))
            (HERE / f"dashboard-{board.key}.svg").write_text(drawn)


if __name__ == "__main__":
    main()
