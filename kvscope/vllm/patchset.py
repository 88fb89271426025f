"""The patches of all supported releases, and the table that says which files make up a release."""

import hashlib
import os
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import kvscope
from kvscope.model.errors import InputError
from kvscope.probe import regular
from kvscope.vllm import patchfile
from kvscope.vllm.patchfile import Patch

SUPPORT = "support.toml"
ELSEWHERE = "KVSCOPE_PATCHES"
"""For trying a set that is not shipped."""

_RELEASE = re.compile(r"[\w.+-]{1,100}", re.ASCII)

Table = dict[str, dict[str, str]]
"""Release -> upstream path -> SHA-256."""


def folder() -> Path:
    """Where the patches are: as `KVSCOPE_PATCHES` says, in an installed package, beside it in a checkout."""
    if given := os.environ.get(ELSEWHERE):
        return Path(given)
    package = Path(kvscope.__file__).parent
    inside = package / "patches"
    return inside if inside.is_dir() else package.parent / "patches"


@dataclass(frozen=True)
class PatchSet:
    """What a release needs: every file's patch."""

    release: str
    patches: tuple[Patch, ...]

    @property
    def digest(self) -> str:
        """16 hex that change with any added line or place."""
        text = "".join(patchfile.render(replace(p, releases=())) for p in self.patches)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_table(root: Path) -> Table:
    """The support table. InputError: it is not there, or not one."""
    path = root / SUPPORT
    try:
        text = _text(path)
    except FileNotFoundError:
        raise InputError(f"no patches: {path} does not exist; install kvscope again") from None
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}; install kvscope again") from None
    for release, files in table.items():
        if not _is_release(release, files):
            raise InputError(f"{path}: {release!r} is not a release with its files, each with its SHA-256 (64 hex)")
    return table


def _is_release(release: str, files: object) -> bool:
    whole = isinstance(files, dict) and files and all(patchfile.names_upstream(*pair) for pair in files.items())
    return bool(whole and _RELEASE.fullmatch(release))


def _text(path: Path) -> str:
    try:
        return regular.read(path).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8, from byte {error.start} on; install kvscope again") from None


def read_set(root: Path, release: str) -> PatchSet:
    """The patch set of a release in the table."""
    table = read_table(root)
    if release not in table:
        raise InputError(f"release {release} is not supported; supported are {', '.join(sorted(table)) or 'none'}")
    return PatchSet(release, tuple(_read(root, path, sha) for path, sha in sorted(table[release].items())))


def _read(root: Path, path: str, sha256: str) -> Patch:
    file = root / Patch(path, sha256, (), ()).name
    try:
        patch = _parsed(file)
    except FileNotFoundError:
        raise InputError(f"the patch {file} for {path} is missing; install kvscope again") from None
    if (patch.path, patch.sha256) != (path, sha256):
        raise InputError(f"{file} is for {patch.path} {patch.sha256}, but {SUPPORT} says {path} {sha256}")
    return patch


def read_all(root: Path) -> list[Patch]:
    """Every patch in the folder, by name."""
    return [_parsed(file) for file in sorted(root.rglob("*.patch"))]


def _parsed(file: Path) -> Patch:
    return patchfile.parse(_text(file), str(file))


def derive_table(patches: list[Patch]) -> Table:
    """The support table that the patches' own headers imply."""
    table: Table = {}
    for patch in patches:
        for release in patch.releases:
            table.setdefault(release, {})[patch.path] = patch.sha256
    return {release: dict(sorted(files.items())) for release, files in sorted(table.items())}


def store(root: Path, release: str, made: list[Patch]) -> None:
    """Make `made` the whole of `release`; other releases stay as they are, patches of none are deleted."""
    if not _RELEASE.fullmatch(release):
        raise InputError(f"{release!r} is no name of a release; write it like 0.32.0")
    kept = {p.name: replace(p, releases=tuple(r for r in p.releases if r != release)) for p in read_all(root)}
    for patch in made:
        others = kept[patch.name].releases if patch.name in kept else ()
        kept[patch.name] = replace(patch, releases=tuple(sorted({*others, release})))
    for name, patch in kept.items():
        file = root / name
        if patch.releases:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(patchfile.render(patch))
        else:
            file.unlink()
    root.mkdir(parents=True, exist_ok=True)
    (root / SUPPORT).write_text(_render_table(derive_table(read_all(root))))


def _render_table(table: Table) -> str:
    out = ["# Which files, as released, make up a release. Written from the patches' headers.\n"]
    for release, files in table.items():
        out.append(f'\n["{release}"]\n')
        out.extend(f'"{path}" = "{sha}"\n' for path, sha in files.items())
    return "".join(out)


def order(release: str) -> tuple[int, ...]:
    """A key by which releases sort."""
    return tuple(int(part) for part in re.findall(r"\d+", release))


def newest(table: Table) -> str:
    """The newest release in the table."""
    if not table:
        raise InputError("the patch folder supports no release")
    return max(table, key=order)
