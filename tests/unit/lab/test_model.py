"""The model made on the spot, read back as its users read it."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from kvscope.lab.model import ModelSpec, byte_symbols, made, weights

SMALL = ModelSpec(layers=1, hidden=8, intermediate=16, heads=2, kv_heads=1, head_size=4)


def test_the_digest_changes_with_every_parameter_and_with_nothing_else() -> None:
    changed = [ModelSpec(**{name: value + 1}) for name, value in vars(ModelSpec()).items()]
    assert len({spec.digest for spec in [ModelSpec(), *changed]}) == len(changed) + 1
    assert ModelSpec().digest == ModelSpec().digest


def test_kv_takes_what_the_documentation_says() -> None:
    assert ModelSpec().kv_bytes_per_token == 4096


def test_every_byte_has_a_visible_symbol_of_its_own() -> None:
    symbols = byte_symbols()
    assert len(set(symbols)) == 256
    assert all(symbol.isprintable() and not symbol.isspace() for symbol in symbols)
    assert symbols[ord("a")] == "a"
    assert symbols[ord(" ")] == "\u0120"


def test_the_weights_file_holds_the_weights(tmp_path: Path) -> None:
    raw = (made(SMALL, tmp_path) / "model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    header, body = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    expected = dict(weights(SMALL))
    assert header.keys() == expected.keys()
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        found = np.frombuffer(body[begin:end], np.float32).reshape(entry["shape"])
        assert np.array_equal(found, expected[name])
    assert max(entry["data_offsets"][1] for entry in header.values()) == len(body)


def test_the_tokenizer_gives_every_byte_the_token_of_its_number(tmp_path: Path) -> None:
    tokenizer = json.loads((made(SMALL, tmp_path) / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    assert [vocabulary[symbol] for symbol in byte_symbols()] == list(range(256))
    assert [(each["content"], each["id"]) for each in tokenizer["added_tokens"]] == [("<s>", 256), ("</s>", 257)]


def test_a_model_is_made_once_and_a_cut_making_is_redone(tmp_path: Path) -> None:
    folder = made(SMALL, tmp_path)
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert made(SMALL, tmp_path) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    (folder / "config.json").unlink()
    (folder / "model.safetensors").write_bytes(b"cut")
    assert len((made(SMALL, tmp_path) / "model.safetensors").read_bytes()) > 3


@pytest.mark.parametrize("spec", [SMALL, ModelSpec(gain=1.0)])
def test_weights_are_the_same_each_time(spec: ModelSpec) -> None:
    for (name, first), (_, second) in zip(weights(spec), weights(spec), strict=True):
        assert np.array_equal(first, second), name
