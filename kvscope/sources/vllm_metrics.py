"""vLLM's own latency histograms, scraped from its Prometheus page: what kvscope's cost is judged by.

The page is parsed here rather than with prometheus-client's parser: four histograms of a format that is one
sample a line need thirty lines, and an operator's shell beside an engine need not have that package.
"""

from __future__ import annotations

import http.client
import math
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from kvscope.model.errors import InputError

TIMEOUT_S = 5.0
"""For an answer to begin, and again for it to come."""
MOST_BYTES = 64_000_000
PIECE = 1 << 16
SHOWN = 200
"""Characters of a reason that an error shows."""

QUANTITIES: Mapping[str, str] = {
    "ttft": "vllm:time_to_first_token_seconds",
    "itl": "vllm:inter_token_latency_seconds",
    "tpot": "vllm:request_time_per_output_token_seconds",
    "e2e": "vllm:e2e_request_latency_seconds",
}
"""What they are called here -> by vLLM."""

_NAMES = {name: quantity for quantity, name in QUANTITIES.items()}
_SAMPLE = re.compile(
    r"(?P<name>[\w:]+)_(?P<part>bucket|sum|count)"
    r'(?:\{(?P<labels>(?:[^"{}]|"(?:[^"\\]|\\.)*")*)\})?'
    r"\s+(?P<value>\S+)"
)
_BOUND = re.compile(r'(?:^|,)\s*le="([^"]+)"')


@dataclass(frozen=True)
class Histogram:
    """A latency histogram, summed over an engine's labels; as it stands, or what came to it in between."""

    count: float = 0.0
    total: float = 0.0
    """Seconds."""
    buckets: tuple[tuple[float, float], ...] = ()
    """(upper bound in seconds, observations up to it), rising; the last bound is infinite."""

    @property
    def mean(self) -> float:
        """Seconds; 0 where nothing was observed."""
        return self.total / self.count if self.count else 0.0

    def __add__(self, other: Histogram) -> Histogram:
        return self._merged(other, 1)

    def __sub__(self, earlier: Histogram) -> Histogram:
        return self._merged(earlier, -1)

    def _merged(self, other: Histogram, sign: int) -> Histogram:
        found = dict(self.buckets)
        for bound, count in other.buckets:
            found[bound] = found.get(bound, 0.0) + sign * count
        return Histogram(self.count + sign * other.count, self.total + sign * other.total, tuple(sorted(found.items())))

    def quantile(self, share: float) -> float:
        """Seconds below which `share` of them lay, as if even within a bucket; NaN without observations.

        The last finite bound where it lies above that.
        """
        below, lower = 0.0, 0.0
        for bound, count in self.buckets:
            if self.count and count >= share * self.count:
                if math.isinf(bound):
                    return lower
                return lower + (bound - lower) * (share * self.count - below) / max(count - below, 1e-9)
            below, lower = count, bound
        return math.nan


Page = Mapping[str, Histogram]
"""QUANTITIES' name -> its histogram, for those that the page has."""


def scraped(url: str) -> Page:
    """What an engine says now. InputError: it cannot be reached, or is no vLLM."""
    try:
        page = parsed(_fetched(url))
    except ValueError as error:
        raise InputError(f"{url} answers with what is no metrics page: {error}") from None
    if "ttft" not in page:
        raise InputError(
            f"{url} answers, but not with vLLM's metrics (no {QUANTITIES['ttft']});"
            " name the /metrics page of a vLLM API server that runs with its statistics on"
        )
    return page


def parsed(text: str) -> Page:
    """The histograms in a page of Prometheus' text format; several engines on one page are added up.

    ValueError: a figure is none.
    """
    totals: dict[str, dict[str, float]] = {}
    buckets: dict[str, dict[float, float]] = {}
    for name, part, labels, value in _samples(text):
        if part != "bucket":
            found = totals.setdefault(name, {"count": 0.0, "sum": 0.0})
            found[part] += value
        elif bound := _BOUND.search(labels):
            of_name, at = buckets.setdefault(name, {}), _figure(bound[1])
            of_name[at] = of_name.get(at, 0.0) + value
    return {
        _NAMES[name]: Histogram(found["count"], found["sum"], tuple(sorted(buckets.get(name, {}).items())))
        for name, found in totals.items()
    }


def _samples(text: str) -> Iterator[tuple[str, str, str, float]]:
    """(histogram, bucket|sum|count, labels, value) of the samples that belong to QUANTITIES."""
    for line in text.splitlines():
        if line.startswith("vllm:") and (found := _SAMPLE.match(line)) and found["name"] in _NAMES:
            value = _figure(found["value"])
            if math.isinf(value):
                raise ValueError(f"{found['name']}_{found['part']} is {value}")
            yield found["name"], found["part"], found["labels"] or "", value


def _figure(text: str) -> float:
    value = float(text)
    if math.isnan(value):
        raise ValueError(f"{text!r} is no figure")
    return value


def metrics_url(given: str) -> str:
    """The page that a person means: `http://` and `/metrics` may be left out. InputError: no address at all."""
    url = given if "://" in given else f"http://{given}"
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname
    except ValueError:  # such as a bracket that is not closed
        known = False
    if not known:
        raise InputError(f"{given!r} is not the address of a metrics page; write it like http://127.0.0.1:8000/metrics")
    return f"{url.rstrip('/')}/metrics" if parts.path in ("", "/") else url


def _fetched(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            body = _body(answer)
    except urllib.error.HTTPError as error:
        raise InputError(f"{url} answers with status {error.code}; is it the metrics page of a vLLM?") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = " ".join(str(getattr(error, "reason", None) or error).split())
        raise InputError(f"{url} cannot be reached: {reason[:SHOWN]}") from None
    return body.decode("utf-8", "replace")


def _body(answer: http.client.HTTPResponse) -> bytes:
    """All of it. OSError: it never ends, or not soon, or it breaks off."""
    until, body = time.monotonic() + TIMEOUT_S, bytearray()
    while piece := answer.read1(PIECE):
        body += piece
        if len(body) > MOST_BYTES:
            raise OSError(f"its answer is longer than {MOST_BYTES / 1e6:.0f} MB")
        if time.monotonic() > until:
            raise TimeoutError(f"its answer takes longer than {TIMEOUT_S:g} s")
    if answer.length:
        raise OSError(f"its answer breaks off {answer.length} bytes before its end")
    return bytes(body)
