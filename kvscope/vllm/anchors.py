"""Places in a Python source, told without line numbers: functions by name and by hash, lines by hash."""

import ast
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvscope.vllm.patchfile import MODULE, NONE, Anchor

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Function:
    """A function of a source, with its lines' numbers, 1-based, decorators included."""

    qualname: str
    first: int
    last: int
    node: FunctionNode

    def digest(self, lines: Sequence[str]) -> str:
        """16 hex of its source; white space at line ends does not count."""
        body = "\n".join(line.rstrip() for line in lines[self.first - 1 : self.last])
        return hashlib.sha256(body.encode()).hexdigest()[:16]


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """The statements directly in a statement's (or handler's, or case's) blocks; expressions are not entered."""
    for field in ("body", "handlers", "cases", "orelse", "finalbody"):
        block = getattr(node, field, ())
        yield from block if isinstance(block, list) else ()


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements, handlers and cases inside `node`, in source order."""
    for part in parts(node):
        yield part
        yield from statements(part)


def functions(tree: ast.Module) -> list[Function]:
    """All functions, nested ones too, in the order of their definition."""
    return list(_walk(tree, ""))


def _walk(node: ast.AST, prefix: str) -> Iterator[Function]:
    for child in parts(node):
        if not isinstance(child, FunctionNode | ast.ClassDef):
            yield from _walk(child, prefix)
            continue
        name = f"{prefix}.{child.name}" if prefix else child.name
        if isinstance(child, FunctionNode):
            first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
            yield Function(name, first, child.end_lineno or child.lineno, child)
        yield from _walk(child, name)


def innermost(found: Sequence[Function], line: int) -> int | None:
    """Index of the innermost function whose lines hold `line`."""
    holding = [i for i, f in enumerate(found) if f.first <= line <= f.last]
    return max(holding, key=lambda i: found[i].first, default=None)


def line_digest(line: str) -> str:
    """12 hex of a line without the white space around it."""
    return hashlib.sha256(line.strip().encode()).hexdigest()[:12]


def occurrences(lines: Sequence[str], function: Function, digest: str) -> list[int]:
    """Numbers of the function's lines that have this hash."""
    return [n for n in range(function.first, function.last + 1) if line_digest(lines[n - 1]) == digest]


def following(lines: Sequence[str], function: Function, line: int) -> str:
    """Hash of the function's next line after `line` that is not blank, or `-`."""
    rest = (text for text in lines[line : function.last] if text.strip())
    return next((line_digest(text) for text in rest), NONE)


def describe(lines: Sequence[str], function: Function, line: int) -> Anchor:
    """The anchor of an insertion into `function` after upstream line `line`."""
    after = line_digest(lines[line - 1])
    equal = occurrences(lines, function, after)
    return Anchor(
        function.qualname,
        after,
        following(lines, function, line),
        equal.index(line) + 1,
        len(equal),
        function.digest(lines),
    )


def module_anchor(lines: Sequence[str], line: int) -> Anchor:
    """The anchor of the import block; its place follows from the module's imports."""
    return Anchor(MODULE, line_digest(lines[line - 1]) if line else NONE, NONE, 1, 1, NONE)


def import_line(tree: ast.Module) -> int:
    """The line after which the import block goes: the last top-level import before the first definition."""
    line = 0
    for index, node in enumerate(tree.body):
        if isinstance(node, FunctionNode | ast.ClassDef):
            break
        docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or isinstance(node, ast.Import | ast.ImportFrom):
            line = node.end_lineno or node.lineno
    return line
