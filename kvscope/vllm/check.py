"""What an added line may be, proved on the patched source.

An added line is the import block or a call `_kvs.name(a, b)` standing alone, whose arguments are bare names
or constants that are bound on every path to it. Without it the module is, statement for statement, upstream's.
So an added line evaluates nothing that can raise outside the probe's guard, and calls nothing of the engine's.
"""

import ast
import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module

from kvscope.model.errors import InputError
from kvscope.vllm import anchors, importblock, patchfile
from kvscope.vllm.binding import bound_names
from kvscope.vllm.patchfile import Hunk, Patch

Signatures = Mapping[str, inspect.Signature]
"""Tracepoint -> what it can be called with."""


def tracepoints() -> Signatures:
    """The signatures of kvscope's tracepoints."""
    module = import_module("kvscope.vllm.tracepoints")
    return {name: inspect.signature(value) for name, value in vars(module).items() if inspect.isfunction(value)}


def violations(patch: Patch, stock: bytes, signatures: Signatures | None = None) -> list[str]:
    """What is wrong with `patch`, one sentence each; nothing when it is fit to run."""
    patched = patchfile.apply(patch, stock)
    return [f"{patch.path}: {finding}" for finding in source_violations(stock, patched, patch.hunks, signatures)]


def source_violations(
    stock: bytes, patched: bytes, hunks: tuple[Hunk, ...], signatures: Signatures | None = None
) -> list[str]:
    """The same for a source and its patched form, whatever file that is."""
    try:
        tree = ast.parse(patched)
    except SyntaxError as error:
        return [f"does not parse with the added lines: line {error.lineno}, {error.msg}"]
    except ValueError as error:  # a byte that is in no Python source
        return [f"does not parse with the added lines: {error}"]
    _, inserted = patchfile.origins(hunks, patched.count(b"\n") + 1)
    added = [node for node in anchors.statements(tree) if isinstance(node, ast.stmt) and node.lineno in inserted]
    calls = [node for node in added if not _in_import_block(node, tree, inserted)]
    findings = [finding for node in calls for finding in _shape(node)]
    if findings:
        return findings
    findings += _unbound(tree, calls)
    findings += [f for node in calls for f in _signature(node, signatures)] if signatures is not None else []
    findings += _structure(tree, stock, inserted)
    return findings


def _call(node: ast.stmt) -> tuple[str, list[ast.expr]] | None:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=base), attr=name), args=args, keywords=[])):
            return (name, args) if base == importblock.NAME else None
    return None


def _shape(node: ast.stmt) -> Iterator[str]:
    call = _call(node)
    where = f"the added line {ast.unparse(node).splitlines()[0]!r}"
    if call is None:
        yield f"{where} is not a call of {importblock.NAME}.NAME(...) with positional arguments"
        return
    for arg in call[1]:
        plain = isinstance(arg, ast.Constant) or (isinstance(arg, ast.Name) and arg.id != importblock.NAME)
        if not plain:
            yield f"{where} passes {ast.unparse(arg)!r}; only names and constants cannot raise"


def _unbound(tree: ast.Module, calls: list[ast.stmt]) -> Iterator[str]:
    bound = bound_names(tree, calls)
    for node in calls:
        text = ast.unparse(node)
        if node not in bound:
            yield f"the added line {text!r} can never be reached inside a function"
            continue
        for arg in (_call(node) or ("", []))[1]:
            if isinstance(arg, ast.Name) and arg.id not in bound[node]:
                yield f"the added line {text!r} passes {arg.id}, which is not bound on every path to it"
        if importblock.NAME not in bound[node]:
            yield f"the added line {text!r} is in a module without the import block"


def _signature(node: ast.stmt, signatures: Signatures) -> Iterator[str]:
    name, args = _call(node) or ("", [])
    if name not in signatures:
        yield f"the added line {ast.unparse(node)!r} calls a tracepoint that does not exist"
        return
    try:
        signatures[name].bind(*args)
    except TypeError as error:
        yield f"the added line {ast.unparse(node)!r} does not fit {name}{signatures[name]}: {error}"


def _in_import_block(node: ast.stmt, tree: ast.Module, inserted: set[int]) -> bool:
    blocks = (top for top in tree.body if top.lineno in inserted and _is_import_block(top))
    return any(top.lineno <= node.lineno <= (top.end_lineno or 0) for top in blocks)


def _is_import_block(node: ast.stmt) -> bool:
    return ast.dump(node) == ast.dump(ast.parse("\n".join(importblock.LINES)).body[0])


def _structure(tree: ast.Module, stock: bytes, inserted: set[int]) -> Iterator[str]:
    for node in [tree, *anchors.statements(tree)]:
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                kept = [part for part in block if part.lineno not in inserted]
                if kept[:1] != block[:1] and kept and _is_text(kept[0]):
                    yield f"an added line stands before the docstring at line {kept[0].lineno}"
                setattr(node, field, kept)
    if not _same(tree, ast.parse(stock)):
        yield "the added lines change the meaning of upstream's: without them the module is not the stock one"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _same(one: object, other: object) -> bool:
    """Whether two trees are equal but for where they stand."""
    if type(one) is not type(other):
        return False
    if isinstance(one, ast.AST):
        return all(_same(getattr(one, name, None), getattr(other, name, None)) for name in one._fields)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


def require(findings: list[str]) -> None:
    """Raise InputError with the first finding, if there is one."""
    if findings:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise InputError(findings[0] + more)
