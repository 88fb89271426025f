"""What spans carry, as text: made from the tables that they are made by. `python -m kvscope.export.otlp.markdown`."""

from __future__ import annotations

from collections.abc import Iterable

from kvscope.export.otlp.attributes import ATTRIBUTES
from kvscope.export.otlp.resources import ATTRIBUTES as RESOURCE
from kvscope.model.stages import Class

BEGIN, END = "<!-- tables: made from the code, checked by a test -->", "<!-- end of tables -->"
STAGE = {
    "kvscope.class": ", ".join(cls.value for cls in Class),
    "kvscope.hidden": "false on the path to the first token, true behind it",
    "kvscope.ended_by": "the moment that ended it",
    "kvscope.step": "the engine step that ran then, where one did",
}
LEG = {"kvscope.leg": "prefill or decode", "kvscope.request": "the request's id on this engine"}
ROOT = {"kvscope.ended": "its end was seen; where not, the span ends with the latest moment that was"}


def tables() -> str:
    """Markdown: attributes of roots, legs and stages, and of resources."""
    root = {name: meaning for name, (meaning, _) in ATTRIBUTES.items()} | ROOT
    resource = {name: meaning for name, (meaning, _) in RESOURCE.items()}
    headed = (("of the root", root), ("of a leg", LEG), ("of a stage", STAGE), ("of a resource", resource))
    return "\n".join(_table(head, rows.items()) for head, rows in headed)


def _table(head: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| {head} | |", "| --- | --- |", *(f"| `{name}` | {meaning} |" for name, meaning in rows)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(tables())
