"""What does not fit into memory is refused before it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.model.errors import InputError
from kvscope.sources.capacity import PER_BYTE, check_fits
from kvscope.sources.folders import members

PICTURE = Path(__file__).parents[3] / "docs" / "pictures" / "pull.kvs"


def test_what_fits_is_read_and_what_does_not_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "lines.jsonl").write_text("{}" * 1_000_000)
    needed = PICTURE.stat().st_size * PER_BYTE
    found = members([PICTURE, tmp_path / "lines.jsonl"])
    check_fits(found, needed)
    check_fits(found)
    with pytest.raises(
        InputError, match=r"million events at once takes some 0 GB of memory, and 0 GB are free"
    ) as raised:
        check_fits(found, needed - 1)
    assert "\n" not in str(raised.value)
