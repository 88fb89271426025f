"""Patches from an edited copy of vLLM: what was inserted, and where that is."""

import ast
from collections.abc import Sequence
from pathlib import Path

from kvscope.model.errors import InputError
from kvscope.probe import regular
from kvscope.vllm import anchors, importblock
from kvscope.vllm.patchfile import Hunk, Patch, digest


def package_folder(path: Path) -> Path:
    """The `vllm` package in `path`: the folder itself or one of that name in it."""
    for candidate in (path / "vllm", path):
        if (candidate / "v1").is_dir():
            return candidate
    raise InputError(f"{path} holds no vLLM: neither it nor {path / 'vllm'} has a folder v1")


def make(upstream: Path, edited: Path, release: str) -> list[Patch]:
    """One patch for each file of `edited` that has lines which `upstream` lacks. `edited` may be partial."""
    stock_root, edited_root = package_folder(upstream), package_folder(edited)
    made = []
    for file in sorted(edited_root.rglob("*.py")):
        relative = file.relative_to(edited_root).as_posix()
        stock = stock_root / relative
        if not stock.is_file():
            raise InputError(f"{file} has no counterpart in {stock_root}: patches add lines, not files")
        before, after = regular.read(stock), regular.read(file)
        if before != after:
            made.append(make_patch(f"vllm/{relative}", before, after, release))
    if not made:
        raise InputError(f"nothing in {edited_root} differs from {stock_root}")
    return made


def make_patch(path: str, stock: bytes, edited: bytes, release: str) -> Patch:
    """The patch that turns `stock` into `edited` (with the import block, which need not be there)."""
    old, new = decoded(path, stock).split("\n"), decoded(path, edited).split("\n")
    new = _without_import_block(new)
    inserted = _insertions(path, old, new)
    stock_tree = parsed(path, stock.decode())
    before, after = (anchors.functions(stock_tree), anchors.functions(parsed(path, "\n".join(new))))
    grouped: dict[tuple[int, int], list[str]] = {}
    for number, upstream_line in inserted:
        index = anchors.innermost(after, number)
        if index is None:
            raise InputError(f"{path}: the line inserted after line {upstream_line} is in no function")
        line = _skip_blank(old, upstream_line, before[index].first)
        grouped.setdefault((line, index), []).append(new[number - 1])
    hunks = [Hunk(n, tuple(text), anchors.describe(old, before[i], n)) for (n, i), text in grouped.items()]
    hunks.append(import_hunk(stock_tree, old))
    return Patch(path, digest(stock), (release,), tuple(sorted(hunks, key=lambda h: h.line)))


def import_hunk(tree: ast.Module, lines: Sequence[str]) -> Hunk:
    """The import block at its place."""
    line = anchors.import_line(tree)
    return Hunk(line, importblock.LINES, anchors.module_anchor(lines, line))


def decoded(path: str, data: bytes) -> str:
    """The text of a source. InputError: it is none."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8, from byte {error.start} on") from None


def parsed(path: str, text: str) -> ast.Module:
    """The tree of a source. InputError: it is not Python's."""
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise InputError(f"{path} line {error.lineno}: {error.msg}") from None
    except ValueError as error:  # a byte that is in no Python source
        raise InputError(f"{path}: {error}") from None


def _without_import_block(lines: list[str]) -> list[str]:
    block = list(importblock.LINES)
    for index in range(len(lines) - len(block) + 1):
        if lines[index : index + len(block)] == block:
            return lines[:index] + lines[index + len(block) :]
    return lines


def _insertions(path: str, old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """(line in `new`, line of `old` it comes after) of each added line; refuses anything but additions."""
    added: list[tuple[int, int]] = []
    at = 0
    for number, text in enumerate(new, 1):
        if at < len(old) and text == old[at]:
            at += 1
        else:
            added.append((number, at))
    if at < len(old):
        raise InputError(f"{path}: line {at + 1} of the stock file is changed or missing in the edited copy")
    return added


def _skip_blank(lines: Sequence[str], line: int, first: int) -> int:
    """Blank lines are bad anchors: insert above them."""
    while line > first and not lines[line - 1].strip():
        line -= 1
    return line
