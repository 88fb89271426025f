"""Code of patched sources whose line numbers are upstream's.

Tracebacks, `inspect.getsource` and debuggers read the file on disk, which is the stock one. So each node of the
patched source is given the number that its line has there; an inserted line has that of the line before it.
"""

import ast
from collections.abc import Sequence
from types import CodeType

from kvscope.vllm import patchfile
from kvscope.vllm.patchfile import Hunk


def compile_patched(patched: bytes, hunks: Sequence[Hunk], filename: str) -> CodeType:
    """The module's code. `filename` is the stock file. Raises SyntaxError or ValueError."""
    tree = ast.parse(patched, filename)
    origins, inserted = patchfile.origins(hunks, patched.count(b"\n") + 1)
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if hasattr(node, "lineno"):
            _renumber(node, origins, inserted)
        pending.extend(ast.iter_child_nodes(node))
    code: CodeType = compile(tree, filename, "exec", dont_inherit=True)
    return code


def _renumber(node: ast.AST, origins: list[int], inserted: set[int]) -> None:
    if node.lineno in inserted:  # type: ignore[attr-defined]
        node.col_offset = node.end_col_offset = 0  # type: ignore[attr-defined]
    node.lineno, node.end_lineno = origins[node.lineno], origins[node.end_lineno]  # type: ignore[attr-defined]


def function_codes(module: CodeType) -> dict[str, list[CodeType]]:
    """The code of each function that is not inside another one, by qualified name; several when defined twice."""
    found: dict[str, list[CodeType]] = {}
    pending = [module]
    while pending:
        for const in pending.pop().co_consts:
            if not isinstance(const, CodeType):
                continue
            if _is_class_body(const):
                pending.append(const)
            else:
                found.setdefault(const.co_qualname, []).append(const)
    return found


def _is_class_body(code: CodeType) -> bool:
    return "__module__" in code.co_names and "__qualname__" in code.co_names and not code.co_argcount
