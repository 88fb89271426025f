"""A tiny model made on the spot: random weights, a byte-level tokenizer, nothing downloaded.

Its outputs depend on the whole prompt. With the small weights that a fresh Llama gets, attention is
nearly uniform and the last token alone decides, so that equal outputs prove nothing of the KV cache; here
queries and keys are large enough that what a token attends to depends on what stands there.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RECIPE = 1
"""Counted up when the same parameters make another model than before."""

CHAT_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "


@dataclass(frozen=True)
class ModelSpec:
    """A Llama's shape. The defaults: 4 KiB of KV per token in float32; a 1,000-token prefill takes some 200 ms."""

    layers: int = 4
    hidden: int = 256
    intermediate: int = 688
    heads: int = 4
    kv_heads: int = 2
    head_size: int = 64
    vocabulary: int = 512
    positions: int = 8192
    gain: float = 3.0
    """Of queries and keys: how sharply attention picks. 1.0 is nearly uniform."""
    seed: int = 0

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes that a token's keys and values take, in all layers."""
        return 2 * 4 * self.layers * self.kv_heads * self.head_size

    @property
    def digest(self) -> str:
        """Names the model in the cache: changes with every parameter."""
        told = json.dumps({"recipe": RECIPE, **asdict(self)}, sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:12]


def made(spec: ModelSpec, cache: Path) -> Path:
    """The model's folder in `cache`, filled if it is not there yet."""
    folder = cache / f"model-{spec.digest}"
    if not (folder / "config.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_safetensors(folder / "model.safetensors", dict(weights(spec)))
        _write(folder / "tokenizer.json", tokenizer())
        _write(folder / "tokenizer_config.json", tokenizer_config())
        _write(folder / "config.json", config(spec))  # last: it says that the rest is there
    return folder


def _write(path: Path, content: dict[str, Any]) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=1))
    partial.replace(path)


def config(spec: ModelSpec) -> dict[str, Any]:
    """The model's `config.json`."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": spec.hidden,
        "intermediate_size": spec.intermediate,
        "num_hidden_layers": spec.layers,
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.kv_heads,
        "head_dim": spec.head_size,
        "vocab_size": spec.vocabulary,
        "max_position_embeddings": spec.positions,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "bos_token_id": 256,
        "eos_token_id": 257,
    }


def weights(spec: ModelSpec) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Name and value of every weight, by the names that a Llama checkpoint has."""
    random = np.random.default_rng(spec.seed)

    def drawn(rows: int, columns: int, gain: float = 1.0) -> NDArray[np.float32]:
        return random.standard_normal((rows, columns), np.float32) * np.float32(gain / columns**0.5)

    ones = np.ones(spec.hidden, np.float32)
    yield "model.embed_tokens.weight", drawn(spec.vocabulary, spec.hidden, spec.hidden**0.5)
    for layer in range(spec.layers):
        at = f"model.layers.{layer}"
        yield f"{at}.self_attn.q_proj.weight", drawn(spec.heads * spec.head_size, spec.hidden, spec.gain)
        yield f"{at}.self_attn.k_proj.weight", drawn(spec.kv_heads * spec.head_size, spec.hidden, spec.gain)
        yield f"{at}.self_attn.v_proj.weight", drawn(spec.kv_heads * spec.head_size, spec.hidden, spec.gain)
        yield f"{at}.self_attn.o_proj.weight", drawn(spec.hidden, spec.heads * spec.head_size, spec.gain)
        yield f"{at}.mlp.gate_proj.weight", drawn(spec.intermediate, spec.hidden)
        yield f"{at}.mlp.up_proj.weight", drawn(spec.intermediate, spec.hidden)
        yield f"{at}.mlp.down_proj.weight", drawn(spec.hidden, spec.intermediate)
        yield f"{at}.input_layernorm.weight", ones
        yield f"{at}.post_attention_layernorm.weight", ones
    yield "model.norm.weight", ones
    yield "lm_head.weight", drawn(spec.vocabulary, spec.hidden)


def write_safetensors(path: Path, tensors: dict[str, NDArray[np.float32]]) -> None:
    """Write float32 tensors in the safetensors format: u64 header length, JSON header, the bytes in its order."""
    header: dict[str, Any] = {}
    at = 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    told = json.dumps(header).encode()
    told += b" " * (-len(told) % 8)
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(told)) + told)
        for tensor in tensors.values():
            out.write(tensor.tobytes())


def tokenizer() -> dict[str, Any]:
    """A `tokenizer.json` with one token per byte, and `<s>` and `</s>`."""
    symbols = byte_symbols()
    specials = ["<s>", "</s>"]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_special(256 + index, text) for index, text in enumerate(specials)],
        "normalizer": None,
        "pre_tokenizer": _byte_level(),
        "post_processor": None,
        "decoder": _byte_level(),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {symbol: byte for byte, symbol in enumerate([*symbols, *specials])},
            "merges": [],
        },
    }


def tokenizer_config() -> dict[str, Any]:
    """The `tokenizer_config.json` beside it, with a chat template."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "chat_template": CHAT_TEMPLATE,
    }


def byte_symbols() -> list[str]:
    """The character that stands for each byte in a byte-level vocabulary.

    Visible Latin-1 characters stand for themselves; the others, in order, take the code points from 256 on.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    stand_in = {byte: 256 + index for index, byte in enumerate(hidden)}
    return [chr(stand_in.get(byte, byte)) for byte in range(256)]


def _byte_level() -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def _special(number: int, text: str) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": number, "content": text, **flags}
