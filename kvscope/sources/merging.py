"""What several sources say of one process -> one process: what it lost, and what is in none of them.

Each source tells a stretch of the process's records: how many there had been when it began, how many it holds, and how
many it knows to be lost. Where one stretch begins after all others have ended, what lies between is a gap, no loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvscope.model.events import Gap, Process
from kvscope.probe.ids import DROP
from kvscope.sources.records import before_in, process_of, unrecorded


@dataclass(frozen=True)
class Said:
    """One process in one source."""

    info: Mapping[str, Any]
    held: int
    """Records of it there."""
    span: tuple[int, int] | None
    """ns: the first and the last of them; None: there is none"""
    file: object = None
    """Where that is; None: nowhere else"""

    @property
    def begun(self) -> int:
        """Its records before this source."""
        return int(self.info.get("earlier", 0))

    @property
    def lost(self) -> int:
        """Records that were overwritten while this source was written."""
        return int(self.info.get("lost", 0))

    @property
    def published(self) -> int:
        """Its records when this source ended."""
        return self.begun + self.held + self.lost


def merged(said: Sequence[Said], distinct: int) -> Process:
    """One process of which several sources tell. `distinct`: its records in all together."""
    if len(said) == 1:
        return process_of(said[0].info)
    # Of those that saw as much as any, one that saw it end, else the one named last.
    newest = max(reversed(said), key=lambda each: (each.published, each.info.get("alive") is False))
    # A part that holds nothing of it tells only how far it had come.
    telling = [each for each in said if each.held or each.lost] or [newest]
    oldest = min(telling, key=lambda each: each.begun)
    # What one source missed, another may have caught.
    missing = max(max(each.published for each in telling) - oldest.begun - distinct, 0)
    gaps = _gaps(telling, missing - min(sum(each.lost for each in telling), missing))
    lost = missing - sum(gap.events for gap in gaps) + max(unrecorded(each.info) for each in said)
    before = before_in(oldest.info)
    return replace(process_of(newest.info), lost=lost, earlier=max(oldest.begun - before, 0), before=before, gaps=gaps)


def _gaps(said: Sequence[Said], absent: int) -> tuple[Gap, ...]:
    """`absent` records laid where nothing was seen between two sources."""
    found = list(_between(said)) if absent else []
    if not found:
        return ()
    # Counts are of a process, what is overwritten first is of its threads: what they leave goes to the widest gap.
    widest = max(range(len(found)), key=lambda at: (found[at].events, found[at].end - found[at].begin))
    left = absent - sum(gap.events for gap in found)
    found[widest] = replace(found[widest], events=max(found[widest].events + left, 0))
    return tuple(gap for gap in found if gap.events)


def gaps_between(said: Sequence[Said]) -> tuple[Gap, ...]:
    """What lies between sources, by what they counted alone."""
    return tuple(gap for gap in _between(said) if gap.events)


def under_other_ids(said: Sequence[Said]) -> int:
    """Records that sources hold under ids written in different ways (kept, hashed, dropped): no twins are known. What
    was dropped is the same within a file alone."""
    found, reached = 0, dict[object, int]()
    for each in sorted(said, key=lambda each: each.begun):
        ids = each.info.get("ids")
        way = ids if ids != DROP else (ids, id(each) if each.file is None else each.file)
        others = [end for other, end in reached.items() if other != way]
        found += max(min(each.published, max(others, default=0)) - each.begun, 0)
        reached[way] = max(each.published, reached.get(way, 0))
    return found


def _between(said: Sequence[Said]) -> Iterator[Gap]:
    last, published = None, 0
    for each in sorted((each for each in said if each.span), key=lambda each: each.span or (0, 0)):
        assert each.span is not None
        if last is not None and each.span[0] > last:
            yield Gap(last, each.span[0], max(each.begun - published, 0))
        last = each.span[1] if last is None else max(last, each.span[1])
        published = max(published, each.published)
