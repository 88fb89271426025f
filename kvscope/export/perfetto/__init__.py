"""A recording as a trace that Perfetto's page opens: tracks, slices, flows and counters (docs/perfetto.md)."""

from kvscope.export.perfetto.sink import PerfettoSink

__all__ = ["PerfettoSink"]
