"""What a cell sends. The same lengths at the same times under every mode; the texts are never those of another cell."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from kvscope.lab.client import ClientRecord
from kvscope.lab.load import WARM_UP, LoadOptions, beside, prompt, send
from kvscope.lab.sessions import SessionOptions, converse
from kvscope.lab.sweeping.cell import MIXED, Cell
from kvscope.lab.sweeping.plan import SweepOptions

WARMING = 4
"""Requests before each cell."""
BURST = 16
"""Requests at once, by which the capacity is measured."""
STEADY, BURSTS, TURNS = "steady", "burst", "turn"
"""Parts of a load, by which its requests are named."""
PARTS = {STEADY: 0.6, BURSTS: 0.2, TURNS: 0.2}
"""Of the production shape's requests."""
TOGETHER = 4
TURNS_EACH = 3
SHARED_TOKENS = 256
"""Of every second long prompt: one of two beginnings, that a cache may hold."""
FURTHER = 0.3
"""A later turn's part of the first one's length."""
SESSION_OUTPUT = 96
"""Long enough that reading an answer's blocks back is worth it to vLLM, which computes less than 64 tokens itself."""
TIMEOUT_S = 180.0


@dataclass(frozen=True)
class Sent:
    """A cell's loads, all at once."""

    loads: tuple[LoadOptions, ...]
    sessions: tuple[SessionOptions, ...] = ()

    @property
    def requests(self) -> int:
        """How many, if no turn fails."""
        return sum(each.requests for each in self.loads) + sum(each.sessions * each.turns for each in self.sessions)

    @property
    def told(self) -> dict[str, Any]:
        """For whoever wants to know what was sent, without the texts."""
        loads = [asdict(replace(each, prompts=(), names=())) for each in self.loads]
        return {"loads": loads, "sessions": [asdict(each) for each in self.sessions]}

    def send(self, url: str, answered: Callable[[ClientRecord], None]) -> list[ClientRecord]:
        """Send them and wait for the last answer."""
        parts = [send(each, url, answered) for each in self.loads]
        return beside([*parts, *(converse(each, url, answered) for each in self.sessions)])


@dataclass(frozen=True)
class Wording:
    """How prompts are made."""

    salt: str
    """Drawn anew by each start of the command: engines that run on know no text of it."""
    letters: float = 1.0
    """That make a token."""

    def text(self, tokens: int, *seed: object) -> str:
        """So many tokens."""
        return prompt(max(1, round(tokens * self.letters)), " ".join(map(str, (self.salt, *seed))))


def sent(cell: Cell, options: SweepOptions, rate: float, words: Wording) -> Sent:
    """What a cell sends at so many requests per second."""
    if cell.tokens == MIXED:
        return _production(cell, options, rate, words)
    lengths = [cell.tokens] * options.requests
    return Sent((_load(cell, options, rate, STEADY, [words.text(n, cell.name, at) for at, n in enumerate(lengths)],
                       words),))  # fmt: skip


def _production(cell: Cell, options: SweepOptions, rate: float, words: Wording) -> Sent:
    """Mixed lengths, bursts and conversations."""
    count = {part: max(1, round(share * options.requests)) for part, share in PARTS.items()}
    steady = _load(
        cell, options, rate * PARTS[STEADY], STEADY, list(_mixed(cell, options, count[STEADY], words)), words
    )
    middle = sorted(options.prompts)[len(options.prompts) // 2]
    texts = [words.text(middle, cell.name, BURSTS, number) for number in range(count[BURSTS])]
    bursts = _load(cell, options, rate * PARTS[BURSTS], BURSTS, texts, words)
    sessions = SessionOptions(
        _name(cell, words, TURNS),
        sessions=max(1, round(count[TURNS] / TURNS_EACH)),
        turns=TURNS_EACH,
        rate=rate * PARTS[TURNS] / TURNS_EACH,
        first_tokens=middle,
        further_tokens=max(1, round(FURTHER * middle)),
        output_tokens=SESSION_OUTPUT,
        seed=_seed(cell, options),
        salt=f"{words.salt} {cell.name}",
        timeout_s=TIMEOUT_S,
        model=options.model,
    )
    return Sent((steady, replace(bursts, arrivals="fixed", bunch=TOGETHER)), (sessions,))


def _mixed(cell: Cell, options: SweepOptions, count: int, words: Wording) -> Iterator[str]:
    """Prompts of all lengths: as many tokens in short ones as in long ones, some with a beginning in common."""
    drawn = random.Random(f"lengths {_seed(cell, options)}")
    lengths = drawn.choices(options.prompts, [1 / length for length in options.prompts], k=count)
    for number, length in enumerate(lengths):
        shared = SHARED_TOKENS if number % 2 and length > SHARED_TOKENS else 0
        beginning = words.text(shared, cell.name, "shared", number // 2 % 2) if shared else ""
        yield beginning + words.text(length - shared, cell.name, number)


def _load(
    cell: Cell, options: SweepOptions, rate: float, part: str, texts: Sequence[str], words: Wording
) -> LoadOptions:
    return LoadOptions(
        requests=len(texts),
        rate=rate,
        input_tokens=((max(map(len, texts)), 1.0),),
        output_tokens=options.output_tokens,
        warm_up=0,
        seed=_seed(cell, options),
        timeout_s=TIMEOUT_S,
        prompts=tuple(texts),
        names=tuple(f"{_name(cell, words, part)}-{number:04d}" for number in range(len(texts))),
        model=options.model,
    )


def _name(cell: Cell, words: Wording, part: str) -> str:
    return f"{cell.name}-{words.salt}-{part}"


def _seed(cell: Cell, options: SweepOptions) -> int:
    """The same for all modes, another for each length and rate."""
    return int(hashlib.sha256(f"{options.seed} {cell.condition}".encode()).hexdigest()[:8], 16)


def warming(tokens: int, options: SweepOptions, words: Wording) -> LoadOptions:
    """What is sent before a cell, and counted nowhere."""
    lengths = (tokens,) if tokens else options.prompts
    mix = tuple((max(1, round(each * words.letters)), 1.0) for each in lengths)
    seed = int(hashlib.sha256(f"{words.salt} {tokens}".encode()).hexdigest()[:8], 16)
    return LoadOptions(
        input_tokens=mix, output_tokens=options.output_tokens, warm_up=WARMING, seed=seed, timeout_s=TIMEOUT_S,
        model=options.model,
    )  # fmt: skip


def burst(tokens: int, options: SweepOptions, words: Wording) -> LoadOptions:
    """What shows how much the engines can do: more than they can do at once."""
    drawn = random.Random(f"burst {options.seed}")
    weights = [1 / length for length in options.prompts]
    lengths = [tokens] * BURST if tokens else drawn.choices(options.prompts, weights, k=BURST)
    texts = tuple(words.text(length, "burst", tokens, number) for number, length in enumerate(lengths))
    names = tuple(f"{WARM_UP}burst-{words.salt}-{tokens}-{number:04d}" for number in range(BURST))
    return LoadOptions(
        requests=BURST, rate=1000.0, arrivals="fixed", output_tokens=options.output_tokens, warm_up=0, prompts=texts,
        names=names, timeout_s=TIMEOUT_S, model=options.model,
    )  # fmt: skip


def shown_rate(records: Sequence[ClientRecord]) -> float:
    """Requests per second that a burst was answered with; 0 where nothing was."""
    good = [record for record in records if record.ok]
    if not good:
        return 0.0
    took = max(record.end_ns for record in good) - min(record.sent_ns for record in good)
    return len(good) / took * 1e9 if took > 0 else 0.0


def letters_per_token(records: Sequence[ClientRecord]) -> float:
    """As the engine counted what it was sent; 1 where it told nothing."""
    told = [(len(record.prompt), record.prompt_tokens) for record in records if record.ok and record.prompt_tokens]
    return sum(letters for letters, _ in told) / sum(tokens for _, tokens in told) if told else 1.0
