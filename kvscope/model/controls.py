"""Characters that never reach a terminal: whoever names a request must not steer what others see of it."""

from __future__ import annotations

import unicodedata

_ORDERS = (*range(32), 127, *range(128, 160))
_BREAKS = (0x2028, 0x2029)
_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_HALVES = range(0xD800, 0xE000)
"""Of characters, and no characters alone: no encoding takes them."""

UNSEEN: dict[int, str] = dict.fromkeys((*_ORDERS, *_BREAKS, *_DIRECTIONS, *_HALVES), "?")
"""For `str.translate`: each of them -> `?`."""


def seen(text: str) -> str:
    """What a terminal may be given of a text that can have several lines."""
    return "\n".join(line.translate(UNSEEN) for line in text.split("\n"))


def on_one_line(text: str) -> str:
    """What a terminal may be given of a sentence: the names in it may hold line ends, which are shown as `\\n`."""
    return seen(text.replace("\n", "\\n"))


def celled(text: str) -> str:
    """The text for a place in a table: each character one column wide and after the one before it, others `?`."""
    return text if text.isascii() and text.isprintable() else "".join(map(_cell, text))


def _cell(character: str) -> str:
    mark = unicodedata.category(character)[0] in "CM"
    wide = unicodedata.east_asian_width(character) in ("W", "F")
    backwards = unicodedata.bidirectional(character) in ("R", "AL", "AN")
    return "?" if mark or wide or backwards or not character.isprintable() else character
