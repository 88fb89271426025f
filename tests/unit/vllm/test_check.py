import inspect

import pytest

from kvscope.vllm import authoring, check

STOCK = '''\
"""A module."""
import os


def work(items, flag):
    """Do it."""
    total = 0
    for item in items:
        total += item
    if flag:
        late = 1
    return total
'''


def findings(after: str, added: str) -> list[str]:
    """What the check says to `added` being inserted after the stock line `after`."""
    lines = STOCK.split("\n")
    at = lines.index(after) + 1
    edited = "\n".join([*lines[:at], *added.split("\n"), *lines[at:]])
    patch = authoring.make_patch("vllm/serve/job.py", STOCK.encode(), edited.encode(), "1.0")
    return check.violations(patch, STOCK.encode(), {"seen": inspect.signature(lambda a, b=None: None)})


@pytest.mark.parametrize(
    ("after", "added"),
    [
        ("        total += item", "        _kvs.seen(item)"),
        ("        total += item", "    _kvs.seen(total, flag)"),
        ("    total = 0", "    _kvs.seen(\n        items,\n        1,\n    )"),
        ("        late = 1", "        _kvs.seen(late)"),
    ],
)
def test_a_plain_call_of_bound_names_passes(after: str, added: str) -> None:
    assert findings(after, added) == []


@pytest.mark.parametrize(
    ("after", "added", "said"),
    [
        ("    total = 0", "    _kvs.seen(items.x)", "passes 'items.x'"),
        ("    total = 0", "    _kvs.seen(items[0])", "passes 'items[0]'"),
        ("    total = 0", "    _kvs.seen(len(items))", "passes 'len(items)'"),
        ("    total = 0", "    _kvs.seen(f'{items}')", "passes"),
        ("    total = 0", "    _kvs.seen(*items)", "passes"),
        ("    total = 0", "    _kvs.seen(a=items)", "not a call"),
        ("    total = 0", "    items.clear()", "not a call"),
        ("    total = 0", "    total = 1", "not a call"),
        ("    total = 0", "    _kvs.seen.more(items)", "not a call"),
        ("    total = 0", "    if flag: _kvs.seen(items)", "not a call"),
        ("    return total", "    _kvs.seen(total)", "never be reached"),
        ("        total += item", "    _kvs.seen(item)", "passes item, which is not bound"),
        ("        late = 1", "    _kvs.seen(late)", "passes late, which is not bound"),
        ("    total = 0", "    _kvs.other(total)", "does not exist"),
        ("    total = 0", "    _kvs.seen()", "does not fit"),
        ("    total = 0", "    _kvs.seen(1, 2, 3)", "does not fit"),
        ("def work(items, flag):", "    _kvs.seen(items)", "before the docstring"),
    ],
)
def test_anything_else_is_refused(after: str, added: str, said: str) -> None:
    found = findings(after, added)
    assert len(found) == 1
    assert said in found[0]
    assert found[0].startswith("vllm/serve/job.py: ")


def test_an_argument_inside_an_upstream_call_is_not_a_statement() -> None:
    stock = b"def f(a):\n    g(\n        a,\n    )\n"
    edited = b"def f(a):\n    g(\n        _kvs.seen(a),\n        a,\n    )\n"
    patch = authoring.make_patch("vllm/a/b.py", stock, edited, "1.0")
    assert "change the meaning" in check.violations(patch, stock, {})[0]
