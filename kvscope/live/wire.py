"""What a server of rings and who follows it agree on."""

from __future__ import annotations

from kvscope.agents.wire import PORT, TAKE

__all__ = ["PORT", "TAKE"]

EVENTS, METRICS, HEALTH, READY, TRIGGER = "/events", "/metrics", "/healthz", "/readyz", "/trigger"
MEDIA_TYPE = "application/vnd.kvscope.recording"
INTERVAL_S = 0.1
"""Between two looks at the rings. Each ends with a mark, also where nothing was new."""
SILENCE_S = 3.0
"""Whoever heard nothing for so long has lost the other."""
