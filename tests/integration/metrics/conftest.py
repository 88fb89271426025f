"""Real processes that record, a real `kvscope serve`, a real Prometheus."""

from __future__ import annotations

from ..live.conftest import serve
from ..live.test_access import files
from ..sources.conftest import start

__all__ = ["files", "serve", "start"]
