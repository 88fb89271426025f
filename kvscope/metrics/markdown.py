"""The catalogue as text, for docs/metrics.md: `python -m kvscope.metrics.markdown`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvscope.metrics.buckets import COARSE, FINE, Buckets
from kvscope.metrics.catalogue import ENGINES, ITSELF, METRICS, PAIRS, REQUESTS, ROOM, Metric, most_series
from kvscope.metrics.labels import ALONE, ENGINE, GROUP, LABEL_MEANING, PAIR
from kvscope.metrics.telling import FACTS

BEGIN, END = "<!-- tables: made from the code, checked by a test -->", "<!-- end of tables -->"
PARTS: tuple[tuple[str, Sequence[Metric]], ...] = (
    ("Requests, by model and connector", REQUESTS),
    ("Engines", ENGINES),
    ("Pairs of engines", PAIRS),
    ("kvscope itself", ITSELF),
)
_BUCKETS: dict[Buckets, str] = {FINE: "fine", COARSE: "coarse"}


def tables() -> str:
    """Markdown: metrics by part, labels, buckets, and how many series that is at most."""
    parts = [f"### {title}\n\n{_metrics(metrics)}" for title, metrics in PARTS]
    return "\n".join(
        (*parts, f"### Labels\n\n{_labels()}", f"### Buckets\n\n{_buckets()}", f"### Series\n\n{_series()}")
    )


def _metrics(metrics: Iterable[Metric]) -> str:
    rows = [(f"`{metric.name}`", _kind(metric), ", ".join(f"`{name}`" for name in metric.labels), metric.help)
            for metric in metrics]  # fmt: skip
    return _table(("metric", "type", "labels", "meaning"), rows)


def _kind(metric: Metric) -> str:
    return f"{metric.kind}, {_BUCKETS[metric.buckets]}" if metric.buckets else str(metric.kind)


def _labels() -> str:
    rows = [(f"`{name}`", f"{meaning}{_values(name)}") for name, meaning in LABEL_MEANING.items()]
    facts = ", ".join(f"`{name}`" for name in FACTS)
    return f"{_table(('label', 'meaning'), rows)}\n`kvscope_engine_info` carries besides: {facts}.\n"


def _values(name: str) -> str:
    """Where they are few and not the same as in other documents."""
    if name in ("stage", "moment", "reason", "shape", "thread"):
        return ""
    found = dict.fromkeys(
        columns[metric.inner.index(name)] for metric in METRICS if name in metric.inner for columns in metric.columns
    )
    return f": {', '.join(f'`{value}`' for value in found)}" if found else ""


def _buckets() -> str:
    rows = [
        (name, ", ".join(f"{ns / 1e9:g}" for ns in buckets.ns), buckets.reason) for buckets, name in _BUCKETS.items()
    ]
    return _table(("buckets", "upper bounds in s", "why there"), rows)


def _series() -> str:
    rows = [
        (scope, f"{count}", str(sum(metric.series for metric in METRICS if metric.scope is of)))
        for scope, count, of in (
            ("engine", f"{ENGINE.most} and the others together", ENGINE),
            (
                "model and connector",
                f"as there is room, at most {GROUP.most}, and the others together",
                GROUP,
            ),
            ("pair", f"{PAIR.most} and the others together", PAIR),
            ("kvscope itself", "1", ALONE),
        )
    ]
    groups = max(n for n in range(GROUP.most + 1) if most_series(groups=n) <= ROOM)
    whole = (
        f"Beside {ENGINE.most} engines there is room for {groups} models on a connector by name: then these are"
        f" {most_series(groups=groups):,} series, whatever happens. Where models came before engines there can be"
        f" {GROUP.most}: {most_series():,}.\n"
    )
    return f"{_table(('for each', 'how many', 'series, at most'), rows)}\n{whole}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


assert {name for metric in METRICS for name in metric.labels} == LABEL_MEANING.keys(), "every label has its meaning"

if __name__ == "__main__":
    print(tables())
