"""A real Prometheus of a test's own: on a port of the system's choice, with data in a folder that goes away."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kvscope.lab.ports import free_ports

from ..live.conftest import until

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None and not os.environ.get("CI"),
    reason="Prometheus is not installed: apt-get install prometheus",
)
INTERVAL = "1s"


class Prometheus:
    """A context manager: scrapes targets, each a job of its own, and answers queries."""

    def __init__(self, *rules: str, **jobs: Mapping[str, Any]) -> None:
        """rules: contents of rule files. jobs: name -> what its configuration says beside its name and honor_labels"""
        self._made = tempfile.TemporaryDirectory(prefix="kvscope-prometheus-")
        folder = Path(self._made.name)
        scrapes = [{"job_name": name, "honor_labels": True, **job} for name, job in jobs.items()]
        timing = {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL}
        config = folder / "prometheus.yml"
        files = [folder / f"{number}.rules.yml" for number, _ in enumerate(rules)]
        for path, text in zip(files, rules, strict=True):
            path.write_text(text)
        told = {"global": timing, "rule_files": list(map(str, files)), "scrape_configs": scrapes}
        config.write_text(json.dumps(told))  # JSON is YAML
        self._port = free_ports(1)[0]
        self._log = (folder / "log").open("w+")
        self._command = [
            "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}", "--enable-feature=exemplar-storage",
        ]  # fmt: skip

    def __enter__(self) -> Prometheus:
        self._process = subprocess.Popen(self._command, stdout=self._log, stderr=subprocess.STDOUT)
        try:
            until(self._ready, "Prometheus does not get ready")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        self._made.cleanup()

    @property
    def log(self) -> str:
        """All that it wrote."""
        self._log.flush()
        return Path(self._log.name).read_text()

    def _ready(self) -> bool:
        assert self._process.poll() is None, self.log
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=5) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _asked(self, path: str, **words: str) -> Any:
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(url, timeout=30) as response:
            return json.load(response)["data"]

    def vector(self, query: str, at: float | None = None) -> list[tuple[dict[str, str], float]]:
        """(labels, value) of each series that an instant query gives, now or at a time of day."""
        when = {} if at is None else {"time": f"{at:.3f}"}
        found = self._asked("query", query=query, **when)["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def over_time(self, query: str) -> list[dict[str, Any]]:
        """`metric` and `values` of each series of the last two minutes, one value a second."""
        now = time.time()
        return list(self._asked("query_range", query=query, start=f"{now - 120}", end=f"{now}", step="1")["result"])

    def number(self, query: str) -> float:
        """The one value that a query gives; 0 where there is no series."""
        found = self.vector(query)
        assert len(found) <= 1, found
        return found[0][1] if found else 0.0

    def values(self, selector: str) -> dict[str, float]:
        """series -> its latest value."""
        return {json.dumps(labels, sort_keys=True): value for labels, value in self.vector(selector)}

    def samples(self, selector: str) -> dict[str, list[float]]:
        """series -> its raw samples of the last hour, oldest first."""
        found = self._asked("query", query=f"{selector}[1h]")["result"]
        return {json.dumps(each["metric"], sort_keys=True): [float(v) for _, v in each["values"]] for each in found}

    def label_values(self, selector: str, label: str) -> list[str]:
        """What a label is in the series that a selector chooses."""
        return list(self._asked(f"label/{label}/values", **{"match[]": selector}))

    def rules(self) -> list[dict[str, Any]]:
        """All rules, each with its `health`, its `lastError` and, of an alert, its `state`."""
        return [rule for group in self._asked("rules")["groups"] for rule in group["rules"]]

    def exemplars(self, selector: str) -> list[dict[str, Any]]:
        """`labels`, `value` and `timestamp` of each."""
        found = self._asked("query_exemplars", query=selector, start="0", end="99999999999")
        return [exemplar for series in found for exemplar in series["exemplars"]]

    def until_scraped(self, job: str = "kvscope", anew: int = 2) -> None:
        """Wait until a job was scraped so many times more; on a busy machine some scrapes fail."""
        scrapes = f'min(sum_over_time(up{{job="{job}"}}[1h]))'
        target = self.number(scrapes) + anew
        until(lambda: self.number(scrapes) >= target, f"{job} is not scraped")
