"""An installed vLLM seen through the patches: which release it is, and what state its files are in."""

import re
from dataclasses import dataclass
from pathlib import Path

from kvscope.model.errors import InputError
from kvscope.probe import regular
from kvscope.vllm import patchfile, patchset
from kvscope.vllm.patchfile import Patch
from kvscope.vllm.patchset import PatchSet

STOCK, PATCHED, CHANGED, MISSING = "stock", "patched", "changed", "missing"


@dataclass(frozen=True)
class File:
    """One file that a patch is for, as it lies on disk."""

    patch: Patch
    path: Path
    data: bytes | None
    """Contents; None if there is no such file, or something else in its place."""
    state: str
    """`stock`: as released; `patched`: that with exactly the patch applied; `changed`; `missing`."""

    def stock(self) -> bytes:
        """The file as released, also when it is patched on disk."""
        data = self.data or b""
        without = patchfile.remove(self.patch, data) if self.state == PATCHED else None
        return data if without is None else without

    def difference(self) -> str:
        """What is wrong with a changed or missing file."""
        if self.data is None:
            return f"{self.path} {'is not a regular file' if self.path.exists() else 'does not exist'}"
        found, expected = patchfile.digest(self.data), self.patch.sha256
        return f"{self.path} has SHA-256 {found}, expected {expected}"


@dataclass(frozen=True)
class Survey:
    """A vLLM installation against the release that fits it best."""

    base: Path
    """The folder that holds the `vllm` package."""
    version: str
    """What vLLM says of itself; empty when it says nothing."""
    patches: PatchSet
    files: tuple[File, ...]

    def of(self, state: str) -> tuple[File, ...]:
        """The files in that state."""
        return tuple(file for file in self.files if file.state == state)

    def refusal(self) -> str | None:
        """Why the set cannot be applied; None if it can."""
        wrong = self.of(CHANGED) + self.of(MISSING)
        if not wrong:
            return None
        more = f" (and {len(wrong) - 1} more of {len(self.files)} files)" if len(wrong) > 1 else ""
        if self.version == self.patches.release:
            return f"vLLM {self.version} is not as released: {wrong[0].difference()}{more}"
        return f"vLLM {self.version or 'of unknown version'} is not supported: {wrong[0].difference()}{more}"


def survey(root: Path, base: Path, version: str = "") -> Survey:
    """Compare the vLLM in `base` with every release in the patch folder `root` and give the best fitting one."""
    table = patchset.read_table(root)
    if not table:
        raise InputError(f"{root} supports no release")
    version = version or installed_version(base)
    sets = [patchset.read_set(root, release) for release in table]
    cache: dict[str, bytes | None] = {}
    found = [Survey(base, version, chosen, _files(base, chosen, cache)) for chosen in sets]
    return max(found, key=_fitness)


def _fitness(one: Survey) -> tuple[int, bool, tuple[int, ...]]:
    """More files that fit; then the release that vLLM says it is; then the newest."""
    release = one.patches.release
    misfits = len(one.of(CHANGED) + one.of(MISSING))
    return -misfits, one.version.split("+")[0] == release, patchset.order(release)


def _files(base: Path, patches: PatchSet, cache: dict[str, bytes | None]) -> tuple[File, ...]:
    files = []
    for patch in patches.patches:
        if patch.path not in cache:
            cache[patch.path] = _read(base / patch.path)
        data = cache[patch.path]
        files.append(File(patch, base / patch.path, data, _state(patch, data)))
    return tuple(files)


def _read(path: Path) -> bytes | None:
    try:
        return regular.read(path)
    except OSError:
        if path.is_file():
            raise
        return None


def _state(patch: Patch, data: bytes | None) -> str:
    if data is None:
        return MISSING
    if patchfile.digest(data) == patch.sha256:
        return STOCK
    return PATCHED if patchfile.remove(patch, data) is not None else CHANGED


def installed_version(base: Path) -> str:
    """The version written in the installation; read, not imported."""
    text = _read(base / "vllm" / "_version.py") or b""
    match = re.search(rb"^__version__ = (?:version = )?['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return match[1].decode("utf-8", "replace") if match else ""
