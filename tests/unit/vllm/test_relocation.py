import pytest

from kvscope.vllm import authoring, patchfile
from kvscope.vllm.relocation import (
    AMBIGUOUS,
    ANCHOR_LOST,
    CARRIED,
    FUNCTION_CHANGED,
    FUNCTION_LOST,
    rebuild,
    relocate_all,
)

STOCK = """\
import os


class Queue:
    def put(self, item):
        self.lock()
        self.items.append(item)
        self.unlock()
        self.lock()
        self.count += 1
        self.unlock()
"""
EDITED = STOCK.replace("        self.count += 1\n", "        self.count += 1\n        _kvs.queued(self, item)\n")
PATCH = authoring.make_patch("vllm/a/b.py", STOCK.encode(), EDITED.encode(), "1.0")
TWICE = authoring.make_patch(
    "vllm/a/b.py",
    STOCK.encode(),
    STOCK.replace(
        "        self.lock()\n        self.count", "        self.lock()\n        _kvs.x(self)\n        self.count"
    ).encode(),
    "1.0",
)


@pytest.mark.parametrize(
    ("patch", "old", "new", "outcome", "line"),
    [
        (PATCH, "import os\n", "import os\nimport sys\n\n\ndef more():\n    return sys\n", CARRIED, 15),
        (PATCH, "self.items.append(item)", "self.items.extend([item])", FUNCTION_CHANGED, 10),
        (PATCH, "        self.lock()\n        self.items", "        self.items", FUNCTION_CHANGED, 9),
        (PATCH, "def put", "def push", FUNCTION_LOST, None),
        (PATCH, "self.count += 1", "self.count += 2", ANCHOR_LOST, None),
        (TWICE, "self.items.append(item)", "self.items.extend([item])", FUNCTION_CHANGED, 9),
        (TWICE, "self.count += 1", "self.count += 1\n        self.lock()\n        self.lock()", FUNCTION_CHANGED, 9),
        (TWICE, "self.count += 1", "self.total += 1\n        self.lock()\n        self.lock()", AMBIGUOUS, None),
    ],
)
def test_an_insertion_is_found_again_or_reported(
    patch: patchfile.Patch, old: str, new: str, outcome: str, line: int | None
) -> None:
    (found,) = relocate_all(patch.hunks, STOCK.replace(old, new).encode())
    assert (found.outcome, found.line) == (outcome, line)


def test_a_carried_patch_applies_to_the_new_file() -> None:
    new = STOCK.replace("import os\n", "import os\nimport sys\n").encode()
    carried = rebuild("vllm/a/b.py", "2.0", new, relocate_all(PATCH.hunks, new))
    text = patchfile.apply(carried, new).decode()
    assert "        self.count += 1\n        _kvs.queued(self, item)\n" in text
    assert "import sys\ntry:\n    import kvscope.vllm.tracepoints as _kvs\n" in text
