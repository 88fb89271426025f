"""What is made ahead is the same, in the same order, and leaves no thread behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kvscope.export.ahead import ahead


def counted(made: list[int], most: int) -> Iterator[int]:
    for number in range(most):
        made.append(number)
        yield number


def threads() -> int:
    return sum(thread.name.startswith("ahead") for thread in threading.enumerate())


def test_one_ahead_in_order() -> None:
    made = list[int]()
    for found in ahead(counted(made, 5)):
        assert len(made) in (found + 1, found + 2)
    assert made == [0, 1, 2, 3, 4]
    assert threads() == 0


def test_what_fails_there_fails_here() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise OSError("no more")

    found = ahead(failing())
    assert next(found) == 1
    with pytest.raises(OSError, match="no more"):
        next(found)
    assert threads() == 0


def test_who_stops_taking_ends_it() -> None:
    made = list[int]()
    taken = ahead(counted(made, 100))
    next(taken)
    taken.close()  # type: ignore[attr-defined] # a generator
    assert threads() == 0
    assert len(made) <= 2
