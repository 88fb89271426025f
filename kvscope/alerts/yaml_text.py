"""Plain data as YAML that people like to read. Only what rules need: no anchors, no types but text, lists and maps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

Data = str | Sequence["Data"] | Mapping[str, "Data"]
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*|\d+[smhd]")
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


def yaml_text(data: Data) -> str:
    """Ends with a line break."""
    return "\n".join(_lines(data)) + "\n"


def _lines(data: Data) -> Iterator[str]:
    if isinstance(data, str):
        yield _word(data)
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield from _entry(key, value)
    else:
        for each in data:
            first, *rest = _lines(each)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)


def _entry(key: str, value: Data) -> Iterator[str]:
    if isinstance(value, str) and "\n" not in value:
        yield f"{key}: {_word(value)}"
        return
    yield f"{key}: |-" if isinstance(value, str) else f"{key}:"
    lines = value.split("\n") if isinstance(value, str) else _lines(value)
    yield from (f"  {line}" for line in lines)


def _word(text: str) -> str:
    """Without quotes where it can only be text; JSON's quotes are YAML's."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text, ensure_ascii=False)
