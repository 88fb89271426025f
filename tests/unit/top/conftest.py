"""Snapshots of screens are kept under the name of what they are: SVG."""

from __future__ import annotations

from pytest_textual_snapshot import SVGImageExtension  # type: ignore[import-untyped]

SVGImageExtension.file_extension = "svg"  # the plugin names it as an earlier Syrupy did
