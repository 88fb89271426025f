"""Events as Arrow columns, and back. What the two ways must agree on stands side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from kvscope.model.events import EVENT, Process, picked
from kvscope.probe import layout
from kvscope.probe.vocabulary import (
    DIRECTIONS,
    LEGS,
    MOMENTS,
    REASONS,
    STATES,
    TEXT_VALUES,
    THREADS,
    UNKNOWN,
    VALUES,
)
from kvscope.sources.jsonl import FLAGS
from kvscope.sources.keys import key_of_text, sound, text_of_key
from kvscope.sources.parquet.columns import EVENTS, VALUE_NAMES, WORDS_OF_VALUES, Column, Kind, Table

ARROW: dict[Kind, pa.DataType] = {
    Kind.INSTANT: pa.int64(),
    Kind.NUMBER: pa.int64(),
    Kind.SMALL: pa.int32(),
    Kind.FLAG: pa.bool_(),
    Kind.WORD: pa.dictionary(pa.int32(), pa.string()),
    Kind.TEXT: pa.string(),
    Kind.WORDS: pa.list_(pa.string()),
    Kind.RATIO: pa.float64(),
    Kind.WALL: pa.timestamp("us", "UTC"),
}
CODED: dict[str, tuple[str, ...]] = {
    "leg": LEGS,
    "moment": MOMENTS,
    "thread": THREADS,
    "state": STATES,
    "reason": REASONS,
}
"""Columns of codes -> the words they stand for; the first word stands for nothing, and is null."""
KEYED: dict[str, str] = {"request": "request", "peer_request": "peer"}
"""Columns of ids -> the field that holds their key."""
SMALL = ("rank", "peer_rank")


def schema_of(table: Table) -> pa.Schema:
    """The Arrow schema of a table, its units in the fields' metadata."""
    return pa.schema([_field(column) for column in table.columns])


def _field(column: Column) -> pa.Field:
    told = {"unit": column.unit} if column.unit else None
    return pa.field(column.name, ARROW[column.kind], metadata=told)


def to_columns(rows: np.ndarray, processes: Sequence[Process], texts: Mapping[int, str]) -> dict[str, pa.Array]:
    """Rows (dtype EVENT), all of which can be events -> the columns of EVENTS."""
    process = np.ascontiguousarray(rows["process"]).astype(np.int32)
    found = {
        "t": pa.array(np.ascontiguousarray(rows["t"])),
        "process": pa.array(process),
        "engine": words_at(process, [each.engine for each in processes]),
        "step": numbers(np.ascontiguousarray(rows["step"]).astype(np.int64), 0),
    }
    for name, words in CODED.items():
        found[name] = coded(rows[name], words)
    for name, field in KEYED.items():
        found[name] = keyed(np.ascontiguousarray(rows[field]), texts)
    for name in SMALL:
        found[name] = pa.array(rows[name].astype(np.int32))
    flags = np.ascontiguousarray(rows["flags"])
    for name, bit in FLAGS.items():
        found[name] = pa.Array.from_buffers(pa.bool_(), len(rows), [None, _bits((flags & bit) != 0)])
    return found | _values(rows, texts)


def words_at(index: np.ndarray, words: Sequence[str]) -> pa.DictionaryArray:
    """(n,) index into words, below 0 for null -> text"""
    distinct = list(dict.fromkeys(words))
    where = np.array([distinct.index(word) for word in words] or [0], np.int32)
    return _words(where[np.maximum(index, 0)], index >= 0, [sound(each) for each in distinct])


def numbers(values: np.ndarray, absent: int = UNKNOWN) -> pa.Array:
    """Null where they are `absent`."""
    return _numbers(values, values != absent)


def _numbers(values: np.ndarray, there: np.ndarray) -> pa.Array:
    """Null where they are not there. `pa.array` with a mask takes four times as long."""
    buffers = [_bits(there), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers)


def _words(codes: np.ndarray, there: np.ndarray, words: Sequence[str]) -> pa.DictionaryArray:
    """codes: (n,) i4 index into words, whatever it is where it is not there"""
    buffers = [_bits(there), pa.py_buffer(np.ascontiguousarray(codes))]
    return pa.DictionaryArray.from_buffers(ARROW[Kind.WORD], len(codes), buffers, pa.array(words, pa.string()))


def _bits(flags: np.ndarray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def keyed(keys: np.ndarray, texts: Mapping[int, str]) -> pa.DictionaryArray:
    """(n,) u8 keys, 0 for null -> text"""
    return _keyed_at(len(keys), np.flatnonzero(keys), keys[keys != 0], texts)


def _keyed_at(n: int, at: np.ndarray, keys: np.ndarray, texts: Mapping[int, str]) -> pa.DictionaryArray:
    """n texts: those of the keys at these places, else null."""
    coded = pa.array(keys).dictionary_encode()
    known = [sound(text_of_key(key, texts)) for key in coded.dictionary.to_pylist()]
    return _words(*_scattered(n, at, coded.indices.to_numpy()), known)


def _scattered(n: int, at: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """((n,) the values at these places, (n,) bool where that is)"""
    column, there = np.zeros(n, values.dtype), np.zeros(n, bool)
    column[at], there[at] = values, True
    return column, there


def coded(codes: np.ndarray, words: tuple[str, ...]) -> pa.DictionaryArray:
    """(n,) codes -> the words they stand for; null for the first, and for what is not known"""
    codes = codes.astype(np.int32)
    codes[codes >= len(words)] = 0
    return _words(codes, codes != 0, words)


def _values(rows: np.ndarray, texts: Mapping[int, str]) -> dict[str, pa.Array]:
    pieces: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in VALUE_NAMES}
    for moment, at in _by_moment(rows):
        values = picked(rows, at)["values"]
        for slot, name in enumerate(VALUES.get(MOMENTS[moment], ())):
            pieces[name].append((at, values[:, slot]))
    return {name: _value(name, len(rows), told, texts) for name, told in pieces.items()}


def _by_moment(rows: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """(code, where it is) of each moment that there is."""
    moment = np.ascontiguousarray(rows["moment"])
    order = np.argsort(moment, kind="stable")
    codes, begins = np.unique(moment[order], return_index=True)
    for code, begin, end in zip(codes.tolist(), begins, [*begins[1:], len(order)], strict=False):
        yield code, order[begin:end]


def _value(name: str, n: int, told: list[tuple[np.ndarray, np.ndarray]], texts: Mapping[int, str]) -> pa.Array:
    """n values: those that are told, (where they are, they); null where they are UNKNOWN, and elsewhere."""
    column = np.full(n, UNKNOWN)
    for at, values in told:
        column[at] = values
    there = column != UNKNOWN
    if not there.any():
        return pa.nulls(n, ARROW[Kind.WORD] if name in WORDS_OF_VALUES else pa.int64())
    if name in TEXT_VALUES:
        at = np.flatnonzero(there)
        return _keyed_at(n, at, column[at].view(np.uint64), texts)
    if name == "direction":
        known = (column >= 0) & (column < len(DIRECTIONS))
        return _words(np.where(known, column, 0).astype(np.int32), known, DIRECTIONS)
    return _numbers(column, there)


def from_columns(table: pa.Table) -> tuple[np.ndarray, dict[int, str]]:
    """Columns of EVENTS -> (rows of dtype EVENT, the texts of their keys). ValueError: they are not such."""
    rows = np.zeros(len(table), EVENT)
    texts: dict[int, str] = {}
    rows["t"], rows["process"] = _integers(table, "t", UNKNOWN), _integers(table, "process", -1)
    rows["step"] = _integers(table, "step", 0)
    for name, words in CODED.items():
        rows[name] = _mapped(table, name, words.index, np.uint16)
    for name, field in KEYED.items():
        rows[field] = _mapped(table, name, lambda text: key_of_text(text, texts), np.uint64)
    for name in SMALL:
        rows[name] = _integers(table, name, 0)
    for name, bit in FLAGS.items():
        rows["flags"] |= np.where(_column(table, name).to_numpy(zero_copy_only=False), bit, 0).astype(np.uint16)
    _put_values(rows, table, texts)
    return rows, texts


def _put_values(rows: np.ndarray, table: pa.Table, texts: dict[int, str]) -> None:
    rows["values"] = UNKNOWN
    columns = {name: _told(table, name, texts) for name in VALUE_NAMES}
    for moment, at in _by_moment(rows):
        for slot, name in enumerate(VALUES.get(MOMENTS[moment], ())):
            rows["values"][at, slot] = columns[name][at]


def _told(table: pa.Table, name: str, texts: dict[int, str]) -> np.ndarray:
    if name in TEXT_VALUES:
        keys = _mapped(table, name, lambda text: key_of_text(text, texts), np.uint64).view(np.int64)
        return np.where(keys == 0, UNKNOWN, keys)
    if name == "direction":
        return _mapped(table, name, DIRECTIONS.index, np.int64, UNKNOWN)
    return _integers(table, name, UNKNOWN)


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)


def _integers(table: pa.Table, name: str, absent: int) -> np.ndarray:
    column = _column(table, name)
    return np.asarray(column.fill_null(absent).to_numpy(zero_copy_only=False))


def _mapped(
    table: pa.Table, name: str, code: Callable[[str], int], dtype: type[np.generic], absent: int = 0
) -> np.ndarray:
    """(n,) what each text stands for, `absent` for null."""
    column = _column(table, name)
    codes = np.array([absent, *map(code, column.dictionary.to_pylist())], dtype)
    return np.asarray(codes[column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False) + 1])


def missing_columns(schema: pa.Schema) -> Iterable[str]:
    """Columns of EVENTS that a file lacks, or has of another type."""
    for column in EVENTS.columns:
        at = schema.get_field_index(column.name)
        if at < 0 or schema.field(at).type != ARROW[column.kind]:
            yield column.name


assert layout.VALUES >= max(map(len, VALUES.values()))
