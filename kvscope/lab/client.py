"""What a client saw of one request: an independent check on what kvscope says of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from kvscope.model.errors import InputError

if TYPE_CHECKING:
    from aiohttp import ClientSession


@dataclass(frozen=True)
class ClientRecord:
    """One request. Times: ns, CLOCK_MONOTONIC of the client's host; 0 where it never came."""

    request: str
    """The X-Request-Id it was sent with."""
    warm_up: bool
    prompt: str
    prompt_tokens: int
    due_ns: int
    """When the arrival process wanted it sent."""
    sent_ns: int
    first_byte_ns: int = 0
    """The response's headers were there."""
    token_ns: tuple[int, ...] = ()
    """When each piece that held tokens was there; an engine that is behind puts several tokens in one."""
    end_ns: int = 0
    status: int = 0
    error: str = ""
    output_tokens: int = 0
    token_ids: tuple[int, ...] = ()
    text: str = ""

    @property
    def ok(self) -> bool:
        """Whether it was answered in full."""
        return self.status == 200 and not self.error and self.output_tokens > 0

    @property
    def ttft_ns(self) -> int | None:
        """Time to first token, or None if none came."""
        return self.token_ns[0] - self.sent_ns if self.token_ns else None

    @property
    def gaps_ns(self) -> tuple[int, ...]:
        """Times between one piece and the next."""
        return tuple(later - earlier for earlier, later in zip(self.token_ns, self.token_ns[1:], strict=False))


@dataclass
class _Stream:
    """A server-sent event stream being read."""

    rest: bytes = b""
    token_ns: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    text: str = ""
    prompt_tokens: int = 0
    tokens: int = 0
    error: str = ""
    done: bool = False

    def feed(self, piece: bytes, now: int) -> None:
        """Take a piece that arrived at `now`."""
        *events, self.rest = (self.rest + piece).split(b"\n\n")
        for event in events:
            data = event.removeprefix(b"data:").strip()
            if data == b"[DONE]":
                self.done = True
            elif data:
                self._event(json.loads(data), now)

    def _event(self, event: dict[str, Any], now: int) -> None:
        if "error" in event:
            self.error = str(event["error"].get("message", event["error"]))
        if usage := event.get("usage"):
            self.prompt_tokens, self.tokens = usage["prompt_tokens"], usage["completion_tokens"]
        for choice in event.get("choices", ()):
            ids, text = choice.get("token_ids") or [], choice.get("text") or ""
            if ids or text:
                self.token_ns.append(now)
            self.ids += ids
            self.text += text


async def ask(
    session: ClientSession, url: str, asked: ClientRecord, output_tokens: int, model: str = ""
) -> ClientRecord:
    """Send a greedy, streamed completion; returns `asked` with what came of it. Errors are in the record."""
    from aiohttp import ClientError  # late: whoever only reads records needs no HTTP

    body: dict[str, Any] = {
        "prompt": asked.prompt,
        "max_tokens": output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
        **({"model": model} if model else {}),
    }
    stream, status, first_byte, error = _Stream(), 0, 0, ""
    sent = monotonic_ns()
    try:
        headers = {"X-Request-Id": asked.request}
        async with session.post(f"{url}/v1/completions", json=body, headers=headers) as response:
            status, first_byte = response.status, monotonic_ns()
            if status != 200:
                error = (await response.text())[:500]
            else:
                async for piece in response.content.iter_any():
                    stream.feed(piece, monotonic_ns())
                error = stream.error or ("" if stream.done else "the stream ended before it was done")
    except (ClientError, OSError, TimeoutError) as failure:
        error = f"{type(failure).__name__}: {failure}"
    return replace(
        asked,
        prompt_tokens=stream.prompt_tokens or asked.prompt_tokens,
        sent_ns=sent,
        first_byte_ns=first_byte,
        token_ns=tuple(stream.token_ns),
        end_ns=monotonic_ns(),
        status=status,
        error=error,
        output_tokens=stream.tokens,
        token_ids=tuple(stream.ids),
        text=stream.text,
    )


def write(path: Path, records: Iterable[ClientRecord]) -> None:
    """One JSON object a line."""
    with path.open("w") as out:
        for record in records:
            out.write(json.dumps(asdict(record)) + "\n")


def read(path: Path) -> list[ClientRecord]:
    """What `write` wrote. InputError: it is something else."""
    records = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            told = json.loads(line)
            lists = {name: tuple(told[name]) for name in ("token_ns", "token_ids")}
            records.append(ClientRecord(**{**told, **lists}))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} line {number} is not a client's record: {error}") from error
    return records
