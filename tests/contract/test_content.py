"""No prompt and no token can get into a recording: what is handed to kvscope, and what it reads of that, is listed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .tree import PACKAGE, ROOT

# Names that an added line may pass on. None of them holds a prompt, a token or a text by itself; some are objects of
# the engine that lead to them, and what is read of those is listed below.
PASSED = frozenset(
    (
        *("self", "request", "req", "scheduler_output", "output", "outputs", "metadata", "meta", "matched"),
        *("vllm_config", "kv_cache_config", "engine_id", "expected_engine_id", "decode_engine_id", "eid"),
        *("request_id", "req_id", "rid", "fin_id", "async_failed_req_ids", "sync_failed_req_ids", "preempted_reqs"),
        *("block_ids", "local_block_ids", "local_block_descs_ids", "local_ids", "blocks"),
        *("num_new_tokens", "num_computed_tokens", "num_external_tokens", "token_budget"),
        *("remote_rank", "rank", "handle", "handles", "xfer_state", "res", "best_rtt", "best_offset"),
        *("reg_data", "notif", "notif_msg", "failure_type", "extra_context", "load_kv_async"),
    )
)
TELLING = re.compile(r"token|prompt|text|embed|logprob|content|message|modal|lora|cache_salt", re.I)
"""A name that has to do with what is said."""
COUNTS = frozenset(
    (
        *("num_prompt_tokens", "num_computed_tokens", "num_output_tokens", "max_num_batched_tokens"),
        *("num_scheduled_tokens", "total_num_scheduled_tokens"),
        "last_token",  # when it came
    )
)
"""Of these, what is a number, or numbers by id."""
OF_A_REQUEST = frozenset(
    (
        *("request_id", "arrival_time", "kv_transfer_params", "sampling_params", "status", "abort_immediately"),
        *("num_prompt_tokens", "num_computed_tokens", "num_output_tokens", "trace_headers"),
    )
)
"""What is read of a request."""
READERS = sorted((PACKAGE / "vllm").glob("*_side.py")) + [
    PACKAGE / "vllm" / f"{name}.py" for name in ("failures", "load", "started", "steps")
]
"""Modules that look into the engine's objects."""
PATCHES = sorted((ROOT / "patches").rglob("*.patch"))


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: str(path.relative_to(ROOT)))
def test_added_lines_pass_what_is_listed(path: Path) -> None:
    calls = list(_calls(path))
    assert calls
    for call in calls:
        passed = [*call.args, *(keyword.value for keyword in call.keywords)]
        for argument in passed:
            if not isinstance(argument, ast.Constant):
                assert isinstance(argument, ast.Name), f"{ast.unparse(call)}: a name is passed, never what is in it"
                assert argument.id in PASSED, ast.unparse(call)


def _calls(path: Path) -> Iterator[ast.Call]:
    """What the added lines of a patch call of kvscope."""
    for line in path.read_text().splitlines():
        if line.startswith("+") and "_kvs." in line and "import" not in line:
            (statement,) = ast.parse(line[1:].strip()).body
            assert isinstance(statement, ast.Expr)
            assert isinstance(statement.value, ast.Call)
            yield statement.value


@pytest.mark.parametrize("path", READERS, ids=lambda path: path.name)
def test_what_has_to_do_with_content_is_counted_and_not_read(path: Path) -> None:
    tree = ast.parse(path.read_text())
    counted = {id(call.args[0]) for call in _named(tree, "len")}
    for node, name in _reads(tree):
        if TELLING.search(name) and name not in COUNTS and ast.unparse(node) != "recorder.text":
            assert id(node) in counted, f"{ast.unparse(node)}: how many is all that may be asked of it"


@pytest.mark.parametrize("path", READERS, ids=lambda path: path.name)
def test_of_a_request_only_what_is_listed_is_read(path: Path) -> None:
    for node, name in _reads(ast.parse(path.read_text())):
        whose = (
            ast.unparse(node.value) if isinstance(node, ast.Attribute | ast.Subscript) else ast.unparse(node.args[0])
        )
        if whose in ("request", "req"):
            assert name in OF_A_REQUEST, ast.unparse(node)


def test_the_readers_are_seen() -> None:
    read = {name for path in READERS for _, name in _reads(ast.parse(path.read_text()))}
    assert {"new_token_ids", "num_prompt_tokens", "abort_immediately", "do_remote_decode"} <= read


def _reads(tree: ast.AST) -> Iterator[tuple[ast.Attribute | ast.Subscript | ast.Call, str]]:
    """What is read of objects: by dot, by key, by getattr or get; and its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node, node.attr
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and not _ours(node):
            yield node, str(node.slice.value)
    for call in (*_named(tree, "getattr"), *_named(tree, "get")):
        name = call.args[1] if ast.unparse(call.func) == "getattr" else call.args[0]
        if isinstance(name, ast.Constant):
            yield call, str(name.value)


def _ours(node: ast.Subscript) -> bool:
    """Whether it asks one of kvscope's own tables of words."""
    return ast.unparse(node.value).endswith("_CODE")


def _named(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name:
            yield node
