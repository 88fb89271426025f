"""What may be given away as a page, made from the tables."""

from __future__ import annotations

from collections.abc import Iterator

from kvscope.sharing import allowed
from kvscope.sharing.allowed import Field, Rule
from kvscope.sharing.known import WORDS

BEGIN, END = "<!-- tables: made from the code, checked by a test -->", "<!-- end of tables -->"

TITLES = {
    "record": "**Each record**",
    "value": "**What moments carry besides** ([which carries what](events.md))",
    "process": "**What is said of a process**",
    "started": "**What a process says of itself** (`started`)",
    "head": "**What a file says of itself**",
    "stacks": "**Sampled stacks** (`stacks.jsonl`, with `--stacks`)",
}
AS = {"engine": "P1, D1", "host": "h1", "pid": "1, 2, ..", "tid": "1, 2, ..", "reason": "a code", "recording": "a code"}
"""Kind of name -> what such names look like."""


def tables() -> str:
    """Markdown: each field, what becomes of it, why."""
    return "\n\n".join("\n".join(_table(name)) for name in allowed.TABLES)


def _table(name: str) -> Iterator[str]:
    yield f"{TITLES[name]}\n"
    yield "| field | in what is shared | why |"
    yield "| --- | --- | --- |"
    for field, decided in allowed.TABLES[name].items():
        yield f"| `{field}` | {_becomes(decided)} | {decided.why} |"


def _becomes(field: Field) -> str:
    if field.rule == Rule.RENAMED:
        return f"renamed: {AS.get(field.kind, f'{field.kind}1')}"
    if field.rule == Rule.KNOWN and field.kind in WORDS and len(WORDS[field.kind]) < 5:
        return "kept if " + ", ".join(f"`{word}`" for word in sorted(WORDS[field.kind]))
    return str(field.rule)


if __name__ == "__main__":
    print(tables())
