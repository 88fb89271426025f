"""Recordings of real engines, played to a real Prometheus: each scrape sees a bit more of them."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from kvscope.analysis.objectives import parse_objectives
from kvscope.live.serving import Server
from kvscope.metrics.exposition import Exporter, Page
from kvscope.metrics.reading import Reading
from kvscope.sources.opening import open_all

from ..live.conftest import until
from ..metrics.prometheus import Prometheus
from ..metrics.test_recordings import PICTURES, RECORDINGS, batches

SLO = "ttft=300ms,tpot=30ms"
LOOKS = 24
"""Half seconds of a recording from one scrape to the next."""
TWICE_AND_MORE = 3
"""How often the first page is shown: on a busy machine a scrape is lost."""
OFTEN = {"scrape_interval": "1s", "scrape_timeout": "1s"}
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
COUNTED = re.compile(r"^(kvscope_\w+_(?:total|bucket|sum|count)(?:\{.*?\})?) \S+.*$", re.M)

PUT = {"$__rate_interval": "10m", "$__range": "10m", "$__interval": "1s"} | dict.fromkeys(
    ("$model", "$connector", "$engine", "$prompt", "$stage"), ".*"
)
"""What Grafana puts in the place of its variables, with all of everything chosen."""

VLLM = """\
# TYPE kvscope_engine_info gauge
kvscope_engine_info{model_name="m",engine="0",engine_name="d-7",pod="d-7f",namespace="prod",connector="c"} 1
"""
VLLM_OWN = """\
# TYPE vllm:%(name)s gauge
vllm:%(name)s{model_name="m",engine="0",pod="d-7f",namespace="prod"} 0.25
vllm:%(name)s{model_name="m",engine="0",engine_name="d0"} 0.5
"""
BESIDE = VLLM + "".join(
    VLLM_OWN % {"name": name} for name in ("kv_cache_usage_perc", "num_requests_waiting", "num_requests_running")
)
"""What a scrape of vLLM says, on Kubernetes and where targets have labels; and what ties a pod to its name."""


class Stepped:
    """Metrics of a recording that goes on with each scrape.

    A series that is new has lost its first value for every rate: here all are told as 0 first, so that what was
    counted is known to the last request.
    """

    fault = ""

    def __init__(self, path: Path) -> None:
        pages = list(told(path))
        first = COUNTED.sub(r"\1 0", pages[-1])
        self._pages = [first] * TWICE_AND_MORE + pages
        self._lock = threading.Lock()

    @property
    def over(self) -> bool:
        """Whether all of it was played."""
        return len(self._pages) == 1

    def page(self, accept: str, accept_encoding: str) -> Page:
        """What a scrape sees."""
        with self._lock:
            page = self._pages[0] if self.over else self._pages.pop(0)
        return Page(page.encode(), f"{OPENMETRICS}; charset=utf-8", "")


def told(path: Path) -> Iterator[str]:
    """What metrics of the recording say, from its beginning to its end, in OpenMetrics."""
    parts = list(batches(open_all([path], None).events))
    reading = Reading(iter(parts).__next__, parse_objectives(SLO))
    exporter = Exporter(reading.told)
    for number in range(len(parts)):
        reading.step()
        if number % LOOKS == LOOKS - 1 or number == len(parts) - 1:
            yield exporter.page(OPENMETRICS).body.decode()


class Beside(BaseHTTPRequestHandler):
    """Answers every scrape with the same page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(BESIDE.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def beside() -> Iterator[int]:
    """A target that says what vLLM does; yields its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Beside) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def played(run_dir: Path) -> Iterator[Prometheus]:
    """A Prometheus that has scraped all recordings from beginning to end, each of a host of its own."""
    with ExitStack() as stack:
        ports = {"vllm": stack.enter_context(beside())}
        shows = [Stepped(PICTURES / f"{name}.kvs") for name in RECORDINGS]
        for name, metrics in zip(RECORDINGS, shows, strict=True):
            server = stack.enter_context(Server(run_dir, "127.0.0.1", 0, metrics=metrics))
            ports[name.replace("-", "_")] = server.server_address[1]
        jobs = {job: {"static_configs": [{"targets": [f"127.0.0.1:{port}"]}], **OFTEN} for job, port in ports.items()}
        prometheus = stack.enter_context(Prometheus(**jobs))
        until(lambda: all(metrics.over for metrics in shows), "the recordings are not played")
        for job in jobs:
            prometheus.until_scraped(job)
        yield prometheus
