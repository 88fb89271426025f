"""Which sentences on sources are good to know, and which say that something of the data is missing or wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Whole tails of sentences: notes come back as mere text from exports, and names before them may hold anything.
_HARMLESS = re.compile(
    "|".join(
        (
            r" was shared: sizes in it \(.*\) are rounded, by a ninth at most",
            r" was not ended: it is still being written, or was cut; what it holds until there is used",
            r" in more than one source, each counted once",
            r" of parts before them, removed or not named",
            r": fields that this version does not know are ignored: .*",
            r" holds nothing: whoever writes it has just begun, or was ended then",
            r" is named as parts are and is no file; it is not read",
            r": [\d,]+ of [\d,]+ requests? of .*'s found among the engines'(; .*)?",
            r": [\d,]+ (records? of tools and payloads|spans? of others) left out",
            r": [\d,]+ requests? without times but that of receipt: Dynamo told no more",
        )
    ).join(("(?s:.*(?:", "))"))
)


def impairing(notes: Iterable[str]) -> tuple[str, ...]:
    """Those after which a number may be wrong: what is damaged, lost, left out or counted twice."""
    return tuple(note for note in notes if not _HARMLESS.fullmatch(note))
