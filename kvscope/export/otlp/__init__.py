"""Requests as OpenTelemetry traces: one trace per request, a span for each of its legs and stages."""
