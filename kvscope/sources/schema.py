"""The schema of JSON-lines events as text, made from the tables that the reader uses."""

from __future__ import annotations

from collections.abc import Sequence

from kvscope.model.moments import MOMENT
from kvscope.probe.vocabulary import REASONS, STATES, TEXT_VALUES, THREADS, VALUES
from kvscope.sources.jsonl import COMMON, FLAGS, PROCESS, VERSION, WHOLE

BEGIN, END = "<!-- tables: made from the code, checked by a test -->", "<!-- end of tables -->"

VALUE_MEANING: dict[str, str] = {
    "wall_ns": "the wall-clock time that `t` was converted from",
    "tokens": "tokens: of the prompt (`queued`), in this step, or produced so far",
    "direction": "`to_decode`, or `to_prefill` for the read of a later turn",
    "turn": "turn of a conversation, where it is told",
    "traceparent": "the span that it was asked under, as the HTTP header of that name has it",
    "peer_engine": "engine id, or stable name, of the engine at the other end",
    "cached": "tokens that need not be computed or moved",
    "blocks": "KV blocks",
    "looked": "when the writer had drained before, ns",
    "bytes": "bytes sent or moved",
    "rtt_ns": "round trip of the handshake",
    "offset_ns": "clock offset the handshake measured",
    "descriptors": "descriptors of the transfer",
    "nixl_start": "the library's own start time, ns",
    "nixl_post": "the library's own post duration, ns",
    "nixl_duration": "the library's own transfer duration, ns",
    "free_blocks": "KV blocks free",
    "largest_gap": "largest time between two tokens, ns",
    "reason_text": "the engine's own words for a reason the vocabulary lacks",
    "begin": "when the step began, ns (`t` is its end)",
    "requests": "requests in the step",
    "connector_ns": "time in the connector on the forward thread, ns",
    "folded": "how many steps without a forward this record stands for; 0 for a step with one",
    "waiting": "requests waiting",
    "running": "requests running",
    "held": "requests held for remote KV",
}


def tables() -> str:
    """Markdown: fields, flags, moments with their values, values, and the words that codes stand for."""
    moments = [
        (f"`{name}`", ", ".join(moment.legs), moment.mode, moment.meaning, _names(VALUES.get(name, ())))
        for name, moment in MOMENT.items()
    ]
    words = [(f"`{name}`", _names(known[1:])) for name, known in (("thread", THREADS), ("state", STATES))]
    words.append(("`reason`", _names(REASONS[1:])))
    return "\n".join(
        (
            f"Schema version {VERSION}.\n",
            _table(("field", "meaning"), [(f"`{name}`", meaning) for name, meaning in COMMON.items()]),
            _table(("true or absent",), [(f"`{name}`",) for name in FLAGS]),
            _table(("moment", "leg", "mode", "meaning", "values"), moments),
            _table(("value", "meaning"), [(f"`{name}`", _meaning(name)) for name in VALUE_MEANING]),
            _table(("field", "words"), words),
            _table(("of an object without a moment", "meaning"), [(f"`{name}`", what) for name, what in WHOLE.items()]),
            _table(("field of `process`", "meaning"), [(_each(name), meaning) for name, meaning in PROCESS.items()]),
        )
    )


def _each(names: str) -> str:
    return _names(tuple(names.split(", ")))


def _meaning(name: str) -> str:
    return VALUE_MEANING[name] + (" (a text)" if name in TEXT_VALUES or name == "direction" else "")


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    print(tables())
