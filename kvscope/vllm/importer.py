"""Loading patched modules from memory: everything is prepared first, then put in force whole or not at all."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from kvscope.model.errors import InputError
from kvscope.vllm import check, patchfile
from kvscope.vllm.compilation import compile_patched
from kvscope.vllm.patchfile import Patch
from kvscope.vllm.swap import Swap, Unswappable, plan

Source = tuple[Patch, Path, bytes]
"""A patch, the stock file that it is for, and the file's contents."""


@dataclass(frozen=True)
class Module:
    """The patched code of one module, which says that it comes from the stock file."""

    name: str
    filename: str
    code: CodeType
    patch: Patch


class PatchedLoader(SourceFileLoader):
    """Loads a module from prepared code; all else (source, data, names) is the stock file's."""

    def __init__(self, module: Module) -> None:
        super().__init__(module.name, module.filename)
        self._code = module.code

    def get_code(self, fullname: str) -> CodeType:
        """The patched code; the byte code cache is neither read nor written."""
        return self._code


class PatchedFinder(MetaPathFinder):
    """Answers for the patched modules and for nothing else."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self._modules = {module.name: module for module in modules}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a patched module; None for any other."""
        module = self._modules.get(fullname)
        if module is None:
            return None
        return spec_from_file_location(fullname, module.filename, loader=PatchedLoader(module))


@dataclass(frozen=True)
class Prepared:
    """A whole set, checked and compiled, with nothing in force yet."""

    fresh: tuple[Module, ...]
    """Not imported so far."""
    swaps: tuple[Swap, ...]
    """For modules that are."""

    def install(self, tracepoints: ModuleType) -> None:
        """Put it in force; on any error everything is as before, and the error is raised."""
        backwards = [swap.reversed() for swap in self.swaps]
        try:
            for swap in self.swaps:
                swap.perform(tracepoints)
        except BaseException:
            for swap in backwards:
                swap.perform(tracepoints)
            raise
        sys.meta_path.insert(0, PatchedFinder(self.fresh))


def prepare(sources: Iterable[Source], *, checked: bool = False) -> Prepared:
    """Check (unless that was done) and compile each source. Raises InputError with the first thing wrong."""
    signatures = check.tracepoints()
    modules = []
    for patch, path, stock in sources:
        if not checked:
            check.require(check.violations(patch, stock, signatures))
        patched = patchfile.apply(patch, stock)
        modules.append(Module(patch.module, str(path), compile_patched(patched, patch.hunks, str(path)), patch))
    fresh = tuple(module for module in modules if module.name not in sys.modules)
    return Prepared(fresh, tuple(_swap(module) for module in modules if module.name in sys.modules))


def fingerprint(sources: Iterable[Source]) -> str:
    """16 hex that stand for exactly these patches on exactly these files."""
    text = "".join(patchfile.render(patch) for patch, _, _ in sources)
    return patchfile.digest(text.encode())[:16]


def _swap(module: Module) -> Swap:
    try:
        return plan(sys.modules[module.name], module.code, module.patch.hunks, module.filename)
    except Unswappable as error:
        raise InputError(f"{error}, so it cannot be instrumented while it runs") from None
