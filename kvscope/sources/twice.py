"""What the sources named hold more than once, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from kvscope.model.counting import count


def told_twice(duplicates: int) -> Iterator[str]:
    """What to say of records that several sources hold, if any do."""
    if duplicates:
        yield f"{count(duplicates, 'record')} in more than one source, each counted once"


def counted_twice(records: int) -> Iterator[str]:
    """What to say of records that several sources hold under ids that were written in different ways, if any do."""
    if records:
        yield (
            f"some {count(records, 'record')} are in more than one source, under ids written in different ways (kept,"
            " hashed or dropped): their requests count twice; name recordings with ids of one kind"
        )
