"""Instrumenting a module that is already imported: its functions get new code, everything else stays."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType

from kvscope.vllm import importblock
from kvscope.vllm.compilation import function_codes
from kvscope.vllm.patchfile import MODULE, Hunk

_SAME = ("co_freevars", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_firstlineno")


class Unswappable(Exception):
    """A function of an imported module cannot be given its patched code."""


@dataclass
class Swap:
    """The new code of one module's functions, found but not yet in force."""

    module: ModuleType
    codes: list[tuple[FunctionType, CodeType]]

    def perform(self, tracepoints: ModuleType) -> None:
        """Put the new code in force; undone if any assignment is refused."""
        setattr(self.module, importblock.NAME, tracepoints)
        old = [(function, function.__code__) for function, _ in self.codes]
        try:
            for function, code in self.codes:
                function.__code__ = code
        except BaseException:
            for function, code in old:
                function.__code__ = code
            raise

    def reversed(self) -> "Swap":
        """The swap that undoes this one, to be taken before it is performed."""
        return Swap(self.module, [(function, function.__code__) for function, _ in self.codes])


def plan(module: ModuleType, code: CodeType, hunks: Sequence[Hunk], filename: str) -> Swap:
    """Find each patched function's live object and its new code. Raises Unswappable by name."""
    if getattr(module.__spec__, "_initializing", False):
        raise Unswappable(f"{module.__name__} is being imported at this moment")
    available = function_codes(code)
    chosen: dict[int, tuple[FunctionType, CodeType]] = {}
    for hunk in hunks:
        if hunk.anchor.qualname != MODULE:
            new = _code(available, hunk)
            chosen[id(new)] = (_live(module, new, filename), new)
    return Swap(module, list(chosen.values()))


def _code(available: dict[str, list[CodeType]], hunk: Hunk) -> CodeType:
    """The outermost function that holds the hunk."""
    parts = hunk.anchor.qualname.split(".")
    for length in range(1, len(parts) + 1):
        codes = [c for c in available.get(".".join(parts[:length]), ()) if c.co_firstlineno <= hunk.line]
        if codes:
            return max(codes, key=lambda c: c.co_firstlineno)
    raise Unswappable(f"no function {hunk.anchor.qualname} in the patched source")


def _live(module: ModuleType, new: CodeType, filename: str) -> FunctionType:
    held: object = module
    for part in new.co_qualname.split("."):
        try:
            held = vars(held)[part]
        except (KeyError, TypeError):
            raise Unswappable(f"{module.__name__} has no {new.co_qualname}") from None
    for function in _unwrapped(held):
        old = function.__code__
        if old.co_filename == filename and all(getattr(old, name) == getattr(new, name) for name in _SAME):
            return function
    raise Unswappable(f"{module.__name__}.{new.co_qualname} was replaced or wrapped by something else")


def _unwrapped(held: object) -> Iterator[FunctionType]:
    """The plain functions behind a descriptor or a chain of decorators that name what they wrap."""
    pending, seen = [held], set()
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, FunctionType):
            yield one
        pending.extend(getattr(one, name, None) for name in ("__func__", "fget", "fset", "fdel", "__wrapped__"))
