"""Request ids under other names, made with a key: who lacks it can neither read nor guess them, and they still join.

Readers join by two things. A key in a record stands for an id: each is made anew from the key that it had, whether or
not the id itself is known, so that what was equal stays equal. And where no moment carries both ids, legs are joined by
what their ids have in common: the base without the engine's random tail, and the X-Request-Id inside. So an id's new
name is made piece by piece, and each piece keeps what a reader tells it by:

    cmpl-billing-10.0.0.7-0-1f3a9c04  ->  cmpl-r2c41d1b6f9a07e3-0-93b0f5ce
    ~~~~~                    ~             kept: they are the engine's words
         ~~~~~~~~~~~~~~~~      ~~~~~~~~    hashed; eight hex digits stay eight, other digits stay digits
"""

from __future__ import annotations

import os
import re
import stat
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from kvscope.probe.texts import encoded, raw_of

KEEP, HASH, DROP = MODES = ("keep", "hash", "drop")
"""Ids as they are; under names made with a key that somebody may keep; with one that nobody is given."""
MODE, KEY_FILE = "KVSCOPE_IDS", "KVSCOPE_IDS_KEY"
MADE = "ids.key"
"""The key that engines of one run directory make for themselves when they are given none."""
LEAST_BYTES, MADE_BYTES, MOST_BYTES = 16, 32, 1 << 16
REMEMBERED = 4096
"""Ids of a process: each of its threads asks for them."""

# What an engine puts before an X-Request-Id: `cmpl-`, `chatcmpl-`, with a number before it for n > 1.
_LEAD = re.compile(r"(?:(?:\d+_)?(?:chatcmpl|cmpl)(?:-|\Z))*")
_CHILD = re.compile(r"\d+(?=_)")
_SMALL = 3
"""Digits of a number before an id that is kept: which of a request's answers it is."""
_is_piece, _is_hex = re.compile(r"[0-9a-f]{8}|\d+").fullmatch, re.compile(r"[0-9a-f]{8}").fullmatch


class IdsError(ValueError):
    """Ids cannot be written as it was asked. The message says why, in a sentence."""


class Ids:
    """Gives ids other names. The same key gives the same ones, wherever it is used."""

    def __init__(self, secret: bytes, mode: str = HASH) -> None:
        self.mode = mode
        key = blake2b(secret, digest_size=32, person=b"kvscope ids").digest()
        self._texts = blake2b(digest_size=8, key=key, person=b"text")
        self._keys = blake2b(digest_size=16, key=key, person=b"key")
        self.told = lru_cache(REMEMBERED)(self._told)
        """An id -> (its name as bytes, and the key that stands for it)."""

    def key(self, low: bytes) -> bytes:
        """The low 8 bytes of an id's key -> the 16 of its new one."""
        digest = self._keys.copy()
        digest.update(low)
        return digest.digest()

    def name(self, text: str) -> str:
        """An id's name; the id itself where it is to be kept."""
        return text if self.mode == KEEP else self._usual(text) or self.made(text)

    def _usual(self, text: str) -> str:
        """What `made` makes of an id as engines make them from an ordinary X-Request-Id, in half the time; of others
        nothing."""
        head, _, tail = text.rpartition("-")
        if head.startswith("cmpl-") and head.endswith("-0"):
            engine, core, place = "cmpl-", head[5:-2], "-0-"
        elif head.startswith("chatcmpl-"):
            engine, core, place = "chatcmpl-", head[9:], "-"
        else:
            return ""
        last = core[core.rfind("-") + 1 :]
        whole = core and not last.isdigit() and not _is_hex(last) and "cmpl" not in core
        if not whole or "\n" in text or not text.isascii() or not _is_hex(tail) or tail.isdigit():
            return ""
        return f"{engine}{self._word(core)}{place}{_lettered(self._digest(text[len(engine) :]))}"

    def made(self, text: str) -> str:
        """The name of any id."""
        if "\n" in text:  # no engine makes such a one, and readers take it as a whole
            return self._word(text)
        lead = _LEAD.match(text)
        assert lead is not None  # it may be empty
        begin = lead.end()
        engine = _CHILD.sub(self._child, lead[0]) if "_" in lead[0] else lead[0]
        rest = text[begin:]
        # From the end, what a reader may take off; what is before that is hashed as a whole.
        end, found = len(rest), list[str]()
        while end >= 0 and _is_piece(piece := rest[rest.rfind("-", 0, end) + 1 : end]):
            found.append(self._piece(rest[:end], piece))
            end -= len(piece) + 1
        if end >= 0:
            found.append(self._word(rest[:end]) if end else "")
        return engine + "-".join(found[::-1])

    def _told(self, text: str) -> tuple[bytes, bytes]:
        return self.name(text).encode(), self.key(encoded(text)[1][:8])

    def _piece(self, until: str, piece: str) -> str:
        """The name of the last piece of `until`; two are named alike only if all before them is alike too."""
        if piece == "0":  # the prompt's place among those of its request, nearly always
            return piece
        digest = self._digest(until)
        if not _is_hex(piece):
            return str(10**17 + int.from_bytes(digest, "little") % (9 * 10**17))
        if piece.isdigit():
            return f"{int.from_bytes(digest, 'little') % 10**8:08d}"
        return _lettered(digest)

    def _child(self, found: re.Match[str]) -> str:
        number = found[0]
        small = len(number) <= _SMALL and number.isascii()
        return number if small else str(int.from_bytes(self._digest(number), "little"))

    def _word(self, text: str) -> str:
        return "r" + self._digest(text).hex()[:15]

    def _digest(self, text: str) -> bytes:
        digest = self._texts.copy()
        digest.update(raw_of(text))
        return digest.digest()


def _lettered(digest: bytes) -> str:
    """Eight hex digits that are no number, as what they stand for is none."""
    found = digest[:4].hex()
    return "a" + found[1:] if found.isdigit() else found


def ids_of(mode: str, key_file: Path | None) -> Ids | None:
    """How a recording is to have ids, made with a key that nobody keeps unless a file has one; None: as they are.
    IdsError: it cannot."""
    if key_file is not None and mode != HASH:
        raise IdsError(f"a key is for hashed ids: these are to be {'kept' if mode == KEEP else 'dropped'}")
    if mode == KEEP:
        return None
    return Ids(os.urandom(MADE_BYTES) if key_file is None else read_key(key_file), mode)


def read_key(path: Path) -> bytes:
    """The key in a file. IdsError: it is none, or others can read it."""
    try:
        with open(path, "rb", opener=_at_once) as file:
            mode = os.fstat(file.fileno()).st_mode
            secret = file.read(MOST_BYTES) if stat.S_ISREG(mode) else b""
    except OSError as error:
        raise IdsError(f"the key {path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    if not stat.S_ISREG(mode):
        raise IdsError(f"the key {path} is not a file")
    if mode & stat.S_IRWXO:
        raise IdsError(f"everybody on this host can read the key {path}: chmod o-rwx {path}")
    if len(secret) < LEAST_BYTES:
        raise IdsError(
            f"the key {path} has {len(secret)} bytes; make one of at least {LEAST_BYTES}: "
            f"(umask 077; head -c {MADE_BYTES} /dev/urandom > {path})"
        )
    return secret


def _at_once(path: str, flags: int) -> int:
    """Of a pipe that nobody writes to, nothing is waited for."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def from_environment(run_dir: Path) -> Ids | None:
    """How this process is to write ids; None: as they are. IdsError, OSError: what it is told cannot be done."""
    mode = os.environ.get(MODE) or KEEP
    if mode not in MODES:
        raise IdsError(f"{MODE} is keep, hash or drop, not {mode}")
    if mode == KEEP:
        return None
    named = os.environ.get(KEY_FILE)
    if named and mode == DROP:
        raise IdsError(f"{MODE}=drop takes no key, as nobody is to have it; {MODE}=hash does")
    return Ids(read_key(Path(named)) if named else _common_key(run_dir), mode)


def _common_key(run_dir: Path) -> bytes:
    """The run directory's own key: whichever process comes first makes it."""
    path = run_dir / MADE
    if not path.exists():
        hidden = run_dir / f".{MADE}.{os.getpid()}.{os.urandom(3).hex()}"
        fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, os.urandom(MADE_BYTES))
            os.link(hidden, path)
        except FileExistsError:
            pass  # another process was faster: its key it is
        finally:
            os.close(fd)
            hidden.unlink()
    return read_key(path)
