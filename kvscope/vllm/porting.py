"""Carrying the patches of one release to another."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kvscope.model.errors import InputError
from kvscope.probe import regular
from kvscope.vllm import authoring, check
from kvscope.vllm.patchfile import Patch, insert
from kvscope.vllm.patchset import PatchSet
from kvscope.vllm.relocation import CARRIED, FUNCTION_CHANGED, Relocation, rebuild, relocate_all


@dataclass(frozen=True)
class Port:
    """One file's patch, carried over."""

    patch: Patch
    """With what could be carried."""
    moved: tuple[Relocation, ...]
    """Every insertion and what became of it."""
    findings: tuple[str, ...]
    """What the check has against the carried patch."""

    @property
    def complete(self) -> bool:
        """Whether nothing was lost and nothing is wrong."""
        return not self.findings and all(one.outcome in (CARRIED, FUNCTION_CHANGED) for one in self.moved)


def port(origin: PatchSet, target: Path, release: str) -> list[Port]:
    """Each patch of `origin` for the vLLM package in `target`."""
    package = authoring.package_folder(target)
    return [_port(patch, package.parent / _local(patch.path, package), release) for patch in origin.patches]


def _local(path: str, package: Path) -> str:
    return f"{package.name}/{path.removeprefix('vllm/')}"


def write_edited(ports: list[Port], target: Path, edited: Path) -> None:
    """Copies of `target`'s files with the carried lines in them, in the layout that `patch make` reads."""
    package = authoring.package_folder(target)
    for one in ports:
        stock = (package.parent / _local(one.patch.path, package)).read_bytes()
        file = edited / one.patch.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(insert(stock, one.patch.hunks))


def _port(patch: Patch, file: Path, release: str) -> Port:
    if not file.is_file():
        raise InputError(f"{file} does not exist in the new release: find where {patch.path} went, then edit and make")
    stock = regular.read(file)
    authoring.parsed(str(file), authoring.decoded(str(file), stock))
    moved = tuple(relocate_all(patch.hunks, stock))
    carried = rebuild(patch.path, release, stock, moved)
    findings = check.source_violations(stock, insert(stock, carried.hunks), carried.hunks)
    return Port(carried, moved, tuple(findings))


def report(ports: list[Port]) -> Iterator[str]:
    """A line per file, and one per insertion that needs a look."""
    for one in ports:
        carried = sum(moved.outcome == CARRIED for moved in one.moved)
        yield f"{one.patch.path}: {carried} of {len(one.moved)} carried unseen"
        for moved in one.moved:
            if moved.outcome != CARRIED:
                where = f" (now after line {moved.line})" if moved.line else ""
                call = moved.hunk.added[0].strip()
                yield f"  {moved.outcome}: {call} in {moved.hunk.anchor.qualname}{where}"
        yield from (f"  check: {finding}" for finding in one.findings)
