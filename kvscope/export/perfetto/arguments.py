"""What rows of events say beside when and where, as arguments: names are those of docs/events.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from kvscope.export.perfetto import fields
from kvscope.export.perfetto.names import TEXTS, Names
from kvscope.export.perfetto.packets import Arg
from kvscope.export.perfetto.places import Places
from kvscope.probe.vocabulary import DIRECTIONS, MOMENTS, REASONS, STATES, TEXT_VALUES, UNKNOWN, VALUES
from kvscope.sources.jsonl import FLAGS

TIMES = frozenset(("looked", "nixl_start"))
"""Values that are instants of the process's clock."""
_KEY = 0xFFFF_FFFF_FFFF_FFFF


class Arguments:
    """Makes arguments of rows."""

    def __init__(self, names: Names, places: Places) -> None:
        self._names, self._places = names, places
        self._texts: Mapping[int, str] = {}
        self._engines: Mapping[str, str] = {}
        self._known: dict[int, int] = {}

    def know(self, texts: Mapping[int, str]) -> None:
        """The texts that the next rows name; some of these mean engines."""
        self._texts, engines = texts, self._places.engines
        self._known.clear()
        self._engines = {text: engines.engines[at].engine for text, at in engines.by_text.items() if at >= 0}

    def of(self, rows: np.ndarray, moment: int) -> list[Arg]:
        """All that rows (dtype EVENT) of one moment tell."""
        return [*self.who(rows), *self.codes(rows), *self.values(rows, moment)]

    def values(self, rows: np.ndarray, moment: int) -> list[Arg]:
        """The values that only this moment carries."""
        found = []
        for column, name in enumerate(VALUES.get(MOMENTS[moment], ())):
            values = rows["values"][:, column]
            present = values != UNKNOWN
            if not present.any():
                continue
            if name in TEXT_VALUES:
                found.append(self.texts(name, values.astype(np.uint64)))
            elif name == "direction":
                found.append(self._word(name, DIRECTIONS, np.where(present, values, 0)))
            else:
                found.append(Arg(name, self._moved(rows, values) if name in TIMES else values, present))
        return found

    def texts(self, name: str, keys: np.ndarray) -> Arg:
        """(n,) keys of texts, 0 for none, as an argument."""
        told, inverse = np.unique(keys, return_inverse=True)
        known = self._known
        numbers = np.array([known.get(key) or self._learn(key) for key in told.tolist()], np.uint64)
        return Arg(name, numbers[inverse], (keys != 0) & (keys != np.uint64(UNKNOWN & _KEY)), fields.ARG_TEXT_IID)

    def word(self, name: str, value: object, rows: int) -> Arg:
        """One value of any kind, of so many events."""
        text = value if isinstance(value, str) else json.dumps(value)
        return Arg(name, np.full(rows, self._names.number(TEXTS, text)), kind=fields.ARG_TEXT_IID)

    def _moved(self, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
        return self._places.moved(rows["process"], np.where(values == UNKNOWN, 0, values))

    def _learn(self, key: int) -> int:
        text = self._texts.get(key, f"#{key:016x}")
        number = self._known[key] = self._names.number(TEXTS, self._engines.get(text, text))
        return number

    def who(self, rows: np.ndarray) -> list[Arg]:
        """Request, ranks and step."""
        found = [self.texts(name, rows[column]) for name, column in (("request", "request"), ("peer_request", "peer"))]
        told = self._places.ranked[rows["process"]] | (rows["rank"] != 0) | (rows["peer_rank"] != 0)
        found += [Arg(name, rows[name], told) for name in ("rank", "peer_rank")]
        found.append(Arg("step", rows["step"], rows["step"] != 0))
        return [arg for arg in found if arg.present is None or arg.present.any()]

    def codes(self, rows: np.ndarray) -> list[Arg]:
        """State, reason and flags."""
        found = [self._word("state", STATES, rows["state"]), self._word("reason", REASONS, rows["reason"])]
        found += [
            Arg(name, np.ones(len(rows), np.int64), rows["flags"] & bit != 0, fields.ARG_BOOL)
            for name, bit in FLAGS.items()
        ]
        return [arg for arg in found if arg.present is None or arg.present.any()]

    def _word(self, name: str, words: Sequence[str], codes: np.ndarray) -> Arg:
        """(n,) codes, 0 for none; those that are not known are told as numbers."""
        told, inverse = np.unique(codes, return_inverse=True)
        texts = [words[code] if 0 <= code < len(words) else f"#{code}" for code in told.tolist()]
        return Arg(name, self._names.numbers(TEXTS, texts)[inverse], codes != 0, fields.ARG_TEXT_IID)
