"""Finding an insertion's place in a source that the patch was not made for."""

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvscope.vllm import anchors, authoring, installation
from kvscope.vllm.anchors import Function
from kvscope.vllm.patchfile import MODULE, Hunk, Patch, digest

CARRIED = "carried"
FUNCTION_CHANGED = "function changed"
FUNCTION_LOST = "function lost"
ANCHOR_LOST = "anchor lost"
AMBIGUOUS = "ambiguous"


@dataclass(frozen=True)
class Relocation:
    """What became of one insertion."""

    hunk: Hunk
    outcome: str
    """`carried`: the function is unchanged; `function changed`: carried by the lines around it, to be looked at."""
    line: int | None
    """The upstream line it now comes after, where it could be carried."""
    anchor_function: Function | None = None


def relocate(hunk: Hunk, found: Sequence[Function], lines: Sequence[str]) -> Relocation:
    """Find the hunk's place by its function, then by the lines around it."""
    anchor = hunk.anchor
    named = [f for f in found if f.qualname == anchor.qualname]
    if not named:
        return Relocation(hunk, FUNCTION_LOST, None)
    for function in named:
        equal = anchors.occurrences(lines, function, anchor.after)
        if function.digest(lines) == anchor.function and len(equal) >= anchor.nth:
            return Relocation(hunk, CARRIED, equal[anchor.nth - 1], function)
    if len(named) > 1:
        return Relocation(hunk, AMBIGUOUS, None)
    return _by_lines(hunk, named[0], lines)


def _by_lines(hunk: Hunk, function: Function, lines: Sequence[str]) -> Relocation:
    anchor = hunk.anchor
    equal = anchors.occurrences(lines, function, anchor.after)
    if not equal:
        return Relocation(hunk, ANCHOR_LOST, None)
    between = [n for n in equal if anchors.following(lines, function, n) == anchor.before]
    if len(between) == 1:
        return Relocation(hunk, FUNCTION_CHANGED, between[0], function)
    if len(equal) == anchor.total and not between:
        return Relocation(hunk, FUNCTION_CHANGED, equal[anchor.nth - 1], function)
    if len(equal) == anchor.total and equal[anchor.nth - 1] in between:
        return Relocation(hunk, FUNCTION_CHANGED, equal[anchor.nth - 1], function)
    return Relocation(hunk, AMBIGUOUS, None)


def relocate_all(hunks: Iterable[Hunk], stock: bytes) -> list[Relocation]:
    """The same for all hunks of a file except the import block."""
    lines = stock.decode().split("\n")
    found = anchors.functions(ast.parse(stock))
    return [relocate(hunk, found, lines) for hunk in hunks if hunk.anchor.qualname != MODULE]


def rebuild(path: str, release: str, stock: bytes, moved: Iterable[Relocation]) -> Patch:
    """The patch for `stock` with what could be carried, and the import block."""
    lines = stock.decode().split("\n")
    hunks = [authoring.import_hunk(ast.parse(stock), lines)]
    for one in moved:
        if one.line is not None and one.anchor_function is not None:
            anchor = anchors.describe(lines, one.anchor_function, one.line)
            hunks.append(Hunk(one.line, one.hunk.added, anchor))
    return Patch(path, digest(stock), (release,), tuple(sorted(hunks, key=lambda h: h.line)))


def by_function(
    found: installation.Survey, known: Sequence[Patch]
) -> tuple[list[tuple[Patch, Path, bytes]], tuple[str, ...]]:
    """Patches for a vLLM in development: only functions that did not change keep their moments.
    Gives the sources to load and the names of the functions that lost theirs."""
    sources: list[tuple[Patch, Path, bytes]] = []
    lost: list[str] = []
    for file in found.files:
        if file.state == installation.STOCK and file.data is not None:
            sources.append((file.patch, file.path, file.data))
        elif file.state == installation.CHANGED and file.data is not None:
            variants = [file.patch, *(p for p in known if p.path == file.patch.path and p != file.patch)]
            patch, missing = _by_function(variants, file.data)
            lost += (f"{file.patch.path}:{name}" for name in missing)
            if len(patch.hunks) > 1:
                sources.append((patch, file.path, file.data))
        elif file.state == installation.MISSING:
            lost.append(file.patch.path)
    return sources, tuple(lost)


def _by_function(variants: Sequence[Patch], stock: bytes) -> tuple[Patch, list[str]]:
    """Each function's lines come from the first variant that was made for its present source."""
    kept: dict[str, list[Relocation]] = {}
    for variant in variants:
        per_function: dict[str, list[Relocation]] = {}
        for one in relocate_all(variant.hunks, stock):
            if one.outcome == CARRIED:
                per_function.setdefault(one.hunk.anchor.qualname, []).append(one)
        for name, moved in per_function.items():
            kept.setdefault(name, moved)
    wanted = {h.anchor.qualname for h in variants[0].hunks if h.anchor.qualname != MODULE}
    moved = [one for group in kept.values() for one in group]
    return rebuild(variants[0].path, "by function", stock, moved), sorted(wanted - kept.keys())
