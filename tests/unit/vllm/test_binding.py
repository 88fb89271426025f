import ast
import textwrap

import pytest

from kvscope.vllm.binding import bound_names


def names_at_mark(source: str) -> frozenset[str]:
    """The names bound where `MARK` stands as a statement of its own."""
    tree = ast.parse(textwrap.dedent(source))
    (mark,) = (n for n in ast.walk(tree) if isinstance(n, ast.Expr) and ast.unparse(n) == "MARK")
    return bound_names(tree, [mark]).get(mark, frozenset())


BOUND = {
    "parameter": "def f(a, /, b, *x, c, **y):\n MARK",
    "assigned": "def f():\n x = 1\n MARK",
    "both branches": "def f(a):\n if a: x = 1\n else: x = 2\n MARK",
    "the other branch leaves": "def f(a):\n if a: return\n else: x = 2\n MARK",
    "the other branch raises": "def f(a):\n if a:\n  x = 1\n else:\n  raise a\n MARK",
    "for target in the body": "def f(a):\n for k, (x, *v) in a:\n  MARK",
    "for, broken and else": "def f(a):\n for k in a:\n  x = 1\n  break\n else:\n  x = 2\n MARK",
    "while true": "def f(a):\n while True:\n  x = 1\n  if a: break\n MARK",
    "with target": "def f(a):\n with a as x:\n  MARK",
    "in the try": "def f(a):\n try:\n  x = a()\n  MARK\n except E: pass",
    "try, and the handler leaves": "def f(a):\n try: x = a()\n except E: return\n MARK",
    "try, and the handler binds": "def f(a):\n try: x = a()\n except E: x = 0\n MARK",
    "try else": "def f(a):\n try: x = a()\n except E: pass\n else:\n  MARK",
    "handler's name": "def f(a):\n try: a()\n except E as x:\n  MARK",
    "finally": "def f(a):\n try: a()\n finally: x = 1\n MARK",
    "bound before the try, in finally": "def f(a):\n x = 1\n try: a()\n finally:\n  MARK",
    "walrus in the test": "def f(a):\n if (x := a()) and a:\n  MARK",
    "walrus first in and": "def f(a):\n if (x := a()) and a: pass\n MARK",
    "walrus in the while test": "def f(a):\n while (x := a()): pass\n MARK",
    "closure": "def f(a):\n x = 1\n def g():\n  MARK\n return g",
    "a function itself": "def f():\n def x(): pass\n MARK",
    "import in the function": "def f():\n import x.y\n MARK",
    "module": "x = 1\ndef f():\n MARK",
    "module, imported below": "def f():\n MARK\nfrom a import b as x",
    "match, all cases": "def f(a):\n match a:\n  case [x]: pass\n  case x: pass\n MARK",
    "match, captured": "def f(a):\n match a:\n  case {'k': x}:\n   MARK",
    "nonlocal": "def f():\n x = 1\n def g():\n  nonlocal x\n  MARK\n  x = 2",
    "method": "class C:\n def f(self, x):\n  MARK",
    "deleted after": "def f():\n x = 1\n MARK\n del x",
    "augmented": "def f(x):\n x += 1\n MARK",
}

UNBOUND = {
    "one branch": "def f(a):\n if a: x = 1\n MARK",
    "assigned below": "x = 0\ndef f():\n MARK\n x = 1",
    "for may run zero times": "def f(a):\n for x in a: pass\n MARK",
    "continue goes round": "def f(a):\n while True:\n  if a: break\n  x = 1\n MARK",
    "while may run zero times": "def f(a):\n while a:\n  x = 1\n MARK",
    "with may swallow": "def f(a):\n with a:\n  x = a()\n MARK",
    "handler entered early": "def f(a):\n try: x = a()\n except E:\n  MARK",
    "finally entered early": "def f(a):\n try: x = a()\n finally:\n  MARK",
    "handler falls through": "def f(a):\n try: x = a()\n except E: pass\n MARK",
    "handler's name after it": "def f(a):\n try: a()\n except E as x: pass\n MARK",
    "handler's name, also when it was bound before": (
        "def f(a):\n x = 1\n try: a()\n except E as x: pass\n else: return\n MARK"
    ),
    "handler's name through break": "def f(a):\n while True:\n  try: a()\n  except E as x: break\n MARK",
    "walrus second in and": "def f(a):\n if a and (x := a()): pass\n MARK",
    "walrus in one arm": "def f(a):\n b = (x := 1) if a else 2\n MARK",
    "walrus late in a comparison": "def f(a):\n b = a < a < (x := 1)\n MARK",
    "walrus in a comprehension": "def f(a):\n b = [(x := i) for i in a]\n MARK",
    "walrus in a lambda": "def f(a):\n b = lambda: (x := 1)\n MARK",
    "walrus in assert": "def f(a):\n assert (x := a)\n MARK",
    "comprehension's own": "def f(a):\n b = [x for x in a]\n MARK",
    "deleted": "def f(x):\n del x\n MARK",
    "deleted in one branch": "def f(x, a):\n if a: del x\n MARK",
    "deleted in the last round": "def f(x, a):\n for i in a:\n  MARK\n  del x",
    "deleted in a finally passed by break": "def f(x, a):\n while a:\n  try: break\n  finally: del x\n MARK",
    "match without default": "def f(a):\n match a:\n  case 1: x = 1\n MARK",
    "annotation only": "def f():\n x: int\n MARK",
    "closure, bound after": "def f(a):\n def g():\n  MARK\n x = 1\n return g",
    "closure, deleted": "def f(x):\n def g():\n  MARK\n del x\n return g",
    "deleted by a closure": "def f(x):\n def g():\n  nonlocal x\n  del x\n g()\n MARK",
    "class scope": "class C:\n x = 1\n def f(self):\n  MARK",
    "for type checkers only": "if TYPE_CHECKING:\n from a import x\ndef f():\n MARK",
    "module, deleted": "x = 1\ndef f():\n MARK\ndef g():\n global x\n del x",
    "global, shadowed by an outer function's": "def f():\n x = 1\n def g():\n  global x\n  MARK",
    "no such name": "def f():\n MARK",
}


@pytest.mark.parametrize("case", BOUND)
def test_is_bound(case: str) -> None:
    assert "x" in names_at_mark(BOUND[case])


@pytest.mark.parametrize("case", UNBOUND)
def test_is_not_surely_bound(case: str) -> None:
    assert "x" not in names_at_mark(UNBOUND[case])


def test_builtins_count_unless_shadowed() -> None:
    assert "len" in names_at_mark("def f():\n MARK")
    assert "len" not in names_at_mark("def f(a):\n if a: len = 1\n MARK")


def test_a_statement_that_is_never_reached_has_no_names() -> None:
    assert names_at_mark("def f(x):\n return x\n MARK") == frozenset()
