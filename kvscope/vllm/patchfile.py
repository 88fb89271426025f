"""One patch: the lines to add to one upstream file, known by its SHA-256. No upstream text is in it.

    # upstream: vllm/v1/core/sched/scheduler.py
    # sha256: <64 hex of the file as released>
    # releases: 0.32.0, 0.33.0
    --- vllm/v1/core/sched/scheduler.py
    +++ vllm/v1/core/sched/scheduler.py
    @@ -241,0 +242,1 @@ Scheduler.schedule after=<12 hex> before=<12 hex> nth=2/3 function=<16 hex>
    +        _kvs.scheduled(self, request)

The line numbers apply the patch to the file it was made for. The words after them find the same place in
another release: the stripped upstream lines around the insertion (hashes), which of the function's equal
lines the first one is, and the function's own source. It is a zero-context unified diff, so `patch -p0`
reads it too.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvscope.model.errors import InputError

MODULE = "<module>"
NONE = "-"

_HUNK = re.compile(
    r"@@ -(?P<after>\d{1,9}),0 \+\d{1,9},(?P<count>[1-9]\d{0,8}) @@ (?P<qualname>\S+) after=(?P<line>\S+)"
    r" before=(?P<next>\S+) nth=(?P<nth>[1-9]\d{0,8})/(?P<total>[1-9]\d{0,8}) function=(?P<function>\S+)",
    re.ASCII,
)
_UPSTREAM = re.compile(r"vllm(/\w+)+\.py", re.ASCII)
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Anchor:
    """Where an insertion belongs, without line numbers."""

    qualname: str
    """The innermost enclosing function, class names included, or `<module>`."""
    after: str
    """12 hex: hash of the stripped upstream line before the insertion."""
    before: str
    """12 hex: hash of the stripped upstream line after it that is not blank; `-` at the function's end."""
    nth: int
    """Which of the function's lines with that hash, from 1."""
    total: int
    """How many such lines the function has."""
    function: str
    """16 hex: hash of the function's upstream source; `-` for the module."""


@dataclass(frozen=True)
class Hunk:
    """Lines inserted after upstream line `line` (1-based; 0 is the top of the file)."""

    line: int
    added: tuple[str, ...]
    """Without line ends."""
    anchor: Anchor


@dataclass(frozen=True)
class Patch:
    """Everything to add to one upstream file."""

    path: str
    """Relative to the folder that holds the `vllm` package, with forward slashes."""
    sha256: str
    releases: tuple[str, ...]
    hunks: tuple[Hunk, ...]

    @property
    def module(self) -> str:
        """The dotted name under which Python imports the file."""
        parts = self.path.removesuffix(".py").split("/")
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def name(self) -> str:
        """Where the patch is kept, relative to the patch folder."""
        folder, stem = self.path.removesuffix(".py").split("/")[-2:]
        return f"{folder}/{stem}/{self.sha256[:12]}.patch"


class WrongUpstream(InputError):
    """The file is not the one that the patch was made for."""

    def __init__(self, path: str, expected: str, found: str) -> None:
        super().__init__(
            f"{path} is not the file the patch was made for: its SHA-256 is {found}, expected {expected}; "
            "install a supported release or port the patches to this one"
        )


def digest(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def names_upstream(path: object, sha256: object) -> bool:
    """Whether these are the path of a Python file of vLLM's, and a SHA-256: nothing else is ever read or written."""
    told = isinstance(path, str) and isinstance(sha256, str)
    return told and bool(_UPSTREAM.fullmatch(str(path)) and _SHA256.fullmatch(str(sha256)))


def parse(text: str, source: str) -> Patch:
    """Read a patch; `source` names it in errors."""
    headers: dict[str, str] = {}
    hunks: list[Hunk] = []
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if line.startswith("# "):
            key, _, value = line[2:].partition(": ")
            headers[key] = value
        elif line.startswith("@@ "):
            hunks.append(_parse_hunk(line, lines, f"{source} line {number}"))
        elif not line.startswith(("--- ", "+++ ")):
            raise InputError(f"{source} line {number}: only headers, hunks and added lines belong in a patch")
    releases = tuple(headers.get("releases", "").split(", "))
    if not names_upstream(headers.get("upstream"), headers.get("sha256")) or not all(releases):
        raise InputError(f"{source}: the headers upstream (vllm/...py), sha256 (64 hex) and releases are needed")
    return Patch(headers["upstream"], headers["sha256"], releases, tuple(hunks))


def _parse_hunk(header: str, lines: Iterator[tuple[int, str]], where: str) -> Hunk:
    match = _HUNK.fullmatch(header)
    if not match:
        raise InputError(f"{where}: not a hunk that only adds lines and names its place")
    added: list[str] = []
    for _ in range(int(match["count"])):
        _, line = next(lines, (0, ""))
        if not line.startswith("+"):
            raise InputError(f"{where}: the hunk promises {match['count']} added lines and has {len(added)}")
        added.append(line[1:])
    anchor = Anchor(
        match["qualname"], match["line"], match["next"], int(match["nth"]), int(match["total"]), match["function"]
    )
    return Hunk(int(match["after"]), tuple(added), anchor)


def render(patch: Patch) -> str:
    """The patch as text; `parse` gives the same patch back."""
    out = [
        f"# upstream: {patch.path}",
        f"# sha256: {patch.sha256}",
        f"# releases: {', '.join(patch.releases)}",
        f"--- {patch.path}",
        f"+++ {patch.path}",
    ]
    shift = 0
    for hunk in patch.hunks:
        a, count = hunk.anchor, len(hunk.added)
        out.append(
            f"@@ -{hunk.line},0 +{hunk.line + shift + 1},{count} @@ {a.qualname} after={a.after} before={a.before}"
            f" nth={a.nth}/{a.total} function={a.function}"
        )
        out.extend(f"+{line}" for line in hunk.added)
        shift += count
    return "\n".join(out) + "\n"


def apply(patch: Patch, stock: bytes) -> bytes:
    """The patched file. Raises `WrongUpstream` unless `stock` is byte for byte the file as released."""
    found = digest(stock)
    if found != patch.sha256:
        raise WrongUpstream(patch.path, patch.sha256, found)
    try:
        return insert(stock, patch.hunks)
    except InputError as error:
        raise InputError(f"the patch {patch.name} for {patch.path} is damaged: {error}") from None


def insert(stock: bytes, hunks: Sequence[Hunk]) -> bytes:
    """`stock` with the hunks' lines added, whatever file it is."""
    lines = stock.split(b"\n")
    out: list[bytes] = []
    taken = 0
    for hunk in hunks:
        if not taken <= hunk.line < len(lines):
            raise InputError(f"the hunk of {hunk.anchor.qualname} at line {hunk.line} lies outside the file")
        out += lines[taken : hunk.line]
        out += (line.encode() for line in hunk.added)
        taken = hunk.line
    return b"\n".join(out + lines[taken:])


def remove(patch: Patch, data: bytes) -> bytes | None:
    """The file as released, if `data` is exactly that file with this patch applied; else None."""
    lines = data.split(b"\n")
    out: list[bytes] = []
    at = 0
    for hunk in patch.hunks:
        stop = at + hunk.line - len(out)
        added = [line.encode() for line in hunk.added]
        out += lines[at:stop]
        at = stop + len(added)
        if lines[stop:at] != added:
            return None
    stock = b"\n".join(out + lines[at:])
    return stock if digest(stock) == patch.sha256 else None


def origins(hunks: Sequence[Hunk], total: int) -> tuple[list[int], set[int]]:
    """For each line of the patched file (index 0 unused) its upstream line, an inserted one having that of
    the line before it; and the set of inserted lines. `total` is the patched file's number of lines."""
    mapped = [0] * (total + 1)
    inserted: set[int] = set()
    patched = upstream = 0
    for hunk in hunks:
        while upstream < hunk.line:
            patched, upstream = patched + 1, upstream + 1
            mapped[patched] = upstream
        for _ in hunk.added:
            patched += 1
            mapped[patched] = max(upstream, 1)
            inserted.add(patched)
    for line in range(patched + 1, total + 1):
        mapped[line] = line - patched + upstream
    return mapped, inserted
