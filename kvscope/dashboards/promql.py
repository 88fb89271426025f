"""Pieces of PromQL about metrics of the catalogue. A metric or label that is not there is a mistake found at once."""

from __future__ import annotations

from kvscope.metrics.catalogue import METRIC, PREFIX, Kind, Metric
from kvscope.metrics.labels import ENGINE, GROUP, OTHER, PAIR
from kvscope.metrics.telling import FACTS

WINDOW = "$__rate_interval"
"""As wide as a rate needs at the panel's resolution: Grafana fills it in."""
RANGE = "$__range"
"""All that the dashboard shows."""
_PARTS = ("_bucket", "_sum", "_count")
_CHOSEN = {
    GROUP: ('model_name=~"$model"', 'connector=~"$connector"'),
    ENGINE: ('model_name=~"$model"', 'engine_name=~"$engine"'),
}
ENGINE_KEY = "model_name, engine, engine_name"


def metric_of(name: str) -> Metric:
    """The metric that a series without the prefix belongs to. KeyError: there is none."""
    whole = PREFIX + name
    for part in _PARTS:
        found = METRIC.get(whole.removesuffix(part))
        if whole.endswith(part) and found is not None and found.kind is Kind.HISTOGRAM:
            return found
    if METRIC[whole].kind is Kind.HISTOGRAM:
        raise KeyError(f"{name}: ask for one of {', '.join(_PARTS)} of a histogram")
    return METRIC[whole]


def labels_of(metric: Metric) -> tuple[str, ...]:
    """All labels that its series may have."""
    facts = FACTS if metric.kind is Kind.INFO else ()
    return (*metric.labels, *facts, "le")


def series(name: str, **labels: str) -> str:
    """A selector, with what the dashboard's variables choose.

    labels: value, or ~pattern; `cls` is the label class. A pair's own engines are left to `pairs`.
    """
    metric = metric_of(name)
    named = {"class" if label == "cls" else label: value for label, value in labels.items()}
    if unknown := named.keys() - set(labels_of(metric)):
        raise KeyError(f"{metric.name} has no label {', '.join(sorted(unknown))}")
    told = [f'{label}=~"{value[1:]}"' if value.startswith("~") else f'{label}="{value}"'
            for label, value in named.items()]  # fmt: skip
    inside = ",".join((*_CHOSEN.get(metric.scope, ()), *told))
    return f"{PREFIX}{name}{{{inside}}}" if inside else f"{PREFIX}{name}"


def rate(name: str, window: str = WINDOW, **labels: str) -> str:
    """How much a counter grows in a second."""
    return f"rate({series(name, **labels)}[{window}])"


def pairs(name: str, window: str = WINDOW, **labels: str) -> str:
    """The same of pairs with a chosen engine at either end, and of those that have no series of their own."""
    assert metric_of(name).scope is PAIR
    chosen = f"~$engine|{OTHER}"
    ends = (rate(name, window, **{end: chosen}, **labels) for end in PAIR.labels)
    return f"({' or '.join(ends)})"


def total(inner: str, by: str = "") -> str:
    """The sum, by labels."""
    return f"sum by ({by}) ({inner})" if by else f"sum({inner})"


def grown(name: str, window: str = WINDOW, by: str = "", **labels: str) -> str:
    """How much a counter grows in a second, over all series, or by labels."""
    return total(rate(name, window, **labels), by)


def zero(inner: str) -> str:
    """0 where there is no series, because none means that nothing happened."""
    return f"({inner} or vector(0))"


def ratio(over: str, under: str) -> str:
    """One over the other; nothing where there is nothing to divide by."""
    return f"{over}\n/ ({under} > 0)"


def per(over: str, under: str) -> str:
    """The same of several series over one."""
    return f"{over}\n/ on () group_left () ({under} > 0)"


def quantile(share: float, name: str, by: str = "", **labels: str) -> str:
    """Of a histogram, known to the width of its bucket."""
    inside = total(rate(f"{name}_bucket", **labels), ", ".join(filter(None, (by, "le"))))
    return f"histogram_quantile({share}, {inside})"
