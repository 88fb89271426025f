"""Series computed beforehand: shares over the windows that alerts compare, and what needs a past."""

from __future__ import annotations

from kvscope.alerts.query import increase, rate, total
from kvscope.alerts.rule import Recording

WINDOWS = ("5m", "30m", "1h", "6h")
"""Each long window, an hour and six, and a twelfth of it, which ends an alert soon after its cause."""
RATE_WINDOW = "30m"
"""Over which a pair's transfer rate is taken: long enough for fifty requests of a pair that sends two a minute."""

_COORDINATION = 'stage_seconds_sum{exposure="exposed", class="coordination"}'
_PAIRS = 'engine_name!="other", peer!="other"'  # what is added up there changes with who is in it


def coordination(window: str) -> str:
    """Name of the share of TTFT that was coordination."""
    return f"model:kvscope_coordination_of_ttft:ratio_rate{window}"


def requests(window: str) -> str:
    """Name of the number of requests that have a time to first token."""
    return f"model:kvscope_ttft_seconds_count:increase{window}"


def lost(window: str) -> str:
    """Name of the share of events that were lost."""
    return f"engine:kvscope_engine_events_lost:ratio_rate{window}"


def transfer_rate(bound: str) -> str:
    """Name of a pair's bytes per second; bound: low or high."""
    return f"pair:kvscope_transfer_bytes_per_second_{bound}:rate{RATE_WINDOW}"


TRANSFER_SIZE = f"pair:kvscope_transfer_bytes_per_request:rate{RATE_WINDOW}"


def _coordination(window: str) -> Recording:
    share = f"{rate('model', _COORDINATION, window)}\n/ {rate('model', 'ttft_seconds_sum', window)}"
    return Recording(coordination(window), share, "share of TTFT that was exposed coordination, at least")


def _requests(window: str) -> Recording:
    return Recording(requests(window), increase("model", "ttft_seconds_count", window), "complete requests")


def _lost(window: str) -> Recording:
    gone = rate("engine", "engine_events_lost_total", window)
    share = f"{gone}\n/ ({gone} + {rate('engine', 'engine_events_total', window)})"
    return Recording(lost(window), share, "share of events that were overwritten before they were read")


def _transfer_rate(bound: str, slower: str) -> Recording:
    moved = total("pair", f"rate(kvscope_pair_transfer_bytes_total{{{_PAIRS}}}[{RATE_WINDOW}])")
    time = total("pair", f'rate(kvscope_pair_transfer_seconds_total{{{_PAIRS}, bound="{slower}"}}[{RATE_WINDOW}])')
    return Recording(transfer_rate(bound), f"{moved}\n/ {time}", f"bytes per second, {bound} bound")


def _transfer_size() -> Recording:
    moved = total("pair", f"rate(kvscope_pair_transfer_bytes_total{{{_PAIRS}}}[{RATE_WINDOW}])")
    count = total("pair", f"rate(kvscope_pair_requests_total{{{_PAIRS}}}[{RATE_WINDOW}])")
    return Recording(TRANSFER_SIZE, f"{moved}\n/ {count}", "bytes moved for a request, on average")


RECORDINGS: tuple[Recording, ...] = (
    *map(_coordination, WINDOWS),
    *map(_requests, WINDOWS[1:]),
    *map(_lost, WINDOWS),
    _transfer_rate("low", "high"),
    _transfer_rate("high", "low"),
    _transfer_size(),
)
