"""A page as whoever asks can read it."""

from __future__ import annotations

import gzip

import pytest

from kvscope.metrics.exposition import takes_gzip

from .reader import OPENMETRICS, Reader


@pytest.mark.parametrize(
    ("header", "takes"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip ; q = 0.001", True),
        ("*", True),
        ("identity;q=0.5, *;q=0.1", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip;q=0.000, *", False),
        ("*;q=0", False),
        ("notgzip, x;gzip", False),
        ("gzip;q=much", False),
        ("gzip;q=", False),
        ("gzip;q=nan", False),
        (";;,,=", False),
    ],
)
def test_it_is_compressed_where_that_is_asked_for(header: str, takes: bool) -> None:
    assert takes_gzip(header) is takes
    page = Reader().exporter.page(OPENMETRICS, header)
    assert page.encoding == ("gzip" if takes else "")
    body = gzip.decompress(page.body) if takes else page.body
    assert b"kvscope_build_info" in body
