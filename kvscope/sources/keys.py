"""Ids as formats of others write them: texts, and what stands in their place where a text was lost."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kvscope.probe.recorder import key64

_LOST = re.compile(r"#+[0-9a-f]{16}")
"""One `#` before a key without a text; one more than it has before a text that looks like that."""


def text_of_key(key: int, texts: Mapping[int, str]) -> str:
    """What is written for a key: its text, or `#` and its digits where that was lost."""
    text = texts.get(key)
    if not text:
        return f"#{key:016x}"
    return f"#{text}" if text[0] == "#" and _LOST.fullmatch(text) else text


def key_of_text(text: str, texts: dict[int, str]) -> int:
    """The key of what `text_of_key` wrote; `texts` learns what it stands for."""
    if text[:1] == "#" and _LOST.fullmatch(text):
        lost = 0 if text[1] == "#" else int(text[1:], 16)
        if lost:
            return lost
        text = text[1:] if text[1] == "#" else text
    key = key64(text)
    texts[key] = text
    return key


def sound(text: str) -> str:
    """As UTF-8 can hold it: JSON can name half a character."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
