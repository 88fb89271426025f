"""The clocks of the hosts that events come from: what was heard of them before, and what is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from kvscope.core.alignment import Aligner, Alignment, as_stamped
from kvscope.core.between import Between
from kvscope.core.clocks import UNTOLD, hosts_of
from kvscope.core.columns import Columns
from kvscope.core.messages import Messages, merged, messages_of, messages_of_exchanges
from kvscope.core.offsets import telling
from kvscope.model.clockpair import ClockPair
from kvscope.model.events import Events, Process
from kvscope.model.exchange import Exchange
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN, VALUES

_NEVER = 2**61
_STEP, _BEGIN = MOMENT_CODE["step"], VALUES["step"].index("begin")
KEPT_NS = 3600 * 1_000_000_000
"""How long a message is remembered: requests that run for longer are told by their own alone."""


@dataclass(frozen=True)
class Hosts:
    """What is known of them besides the events at hand."""

    heard: Messages = field(default_factory=dict)
    """Messages between them: exchanges of agents, requests that were given out before"""
    reference: str = ""
    """Whose clock everything is told by; else the one furthest ahead, of those that messages lead to"""
    here: str = ""
    """Whose clock `now` is, where that is told: an aggregator's, which may have no engine"""
    known: tuple[ClockPair, ...] = ()
    """What was made of what was heard, when something was heard last"""
    compare: bool = True
    """Whether to compare clocks at all; if not, what lies between hosts stays unaligned"""

    def align(self, columns: Columns, processes: Sequence[Process], lag: np.ndarray, now: int) -> Alignment:
        """columns: as stamped. lag: (processes,) as of `clocks`, by which the clock furthest ahead shows `now`."""
        names = sorted({process.host for process in processes} - {""})
        one = columns.legs.hosts.max(initial=UNTOLD) == UNTOLD and self.here in ("", *names)
        if not self.compare or one or not names:  # nothing to compare
            return replace(as_stamped(columns), clocks=self.known)
        new = messages_of(columns, processes)
        messages = merged((self.heard, new))
        if not messages:
            return as_stamped(columns)
        behind = np.zeros(len(names), np.int64)
        number = hosts_of(processes)
        behind[number[number >= 0]] = lag[number >= 0]
        between = Between(messages)
        reached = {name for pair in messages for name in pair}
        candidates = [name for name in names if name in reached] or names
        furthest = min(candidates, key=lambda name: (behind[names.index(name)], name))
        reference = self.reference if self.reference in {*names, self.here} else furthest
        if reference not in names:  # what time it is there, the others tell
            names, behind = [*names, reference], np.append(behind, _NEVER)
        found = Aligner(between, names, reference, behind, now).align(columns)
        return replace(found, messages=new, clocks=between.pairs(), reference=reference)

    def hearing(self, exchanges: Sequence[Exchange]) -> Hosts:
        """With what agents asked and were answered by whoever gives events out, and tells them by its own clock."""
        if not (new := messages_of_exchanges(exchanges)):
            return self
        heard, here = {pair: _needed(its) for pair, its in merged((self.heard, new)).items()}, exchanges[-1].peer
        return replace(self, heard=heard, reference=here, here=here)

    def moved(self, events: Events) -> Events:
        """Events by the clock of `here`, as well as a host's clock is known now: good for what is shown beside
        requests, which need them as they were stamped."""
        if not self.here or not len(events):
            return events
        rows, process = events.rows.copy(), events.rows["process"]
        for host in sorted({each.host for each in events.processes} - {"", self.here}):
            mine = np.flatnonzero(np.array([each.host == host for each in events.processes])[process])
            if len(mine):
                low, high, known = self._between.at(host, self.here, np.median(rows["t"][mine]).astype(np.int64)[None])
                ahead = int(low[0] + (high[0] - low[0]) // 2) if known[0] else 0
                rows["t"][mine] += ahead
                begun = mine[(rows["moment"][mine] == _STEP) & (rows["values"][mine, _BEGIN] != UNKNOWN)]
                rows["values"][begun, _BEGIN] += ahead
        return replace(events, rows=rows)

    @cached_property
    def _between(self) -> Between:
        return Between(self.heard)

    def after(self, aligned: Alignment) -> Hosts:
        """With what that told of the clocks: as much as is needed to bound them."""
        if not aligned.messages:
            return self
        heard = {pair: _needed(its) for pair, its in merged((self.heard, aligned.messages)).items()}
        return replace(self, heard=heard, known=aligned.clocks, reference=aligned.reference)


def _needed(messages: np.ndarray) -> np.ndarray:
    """Of the last hour what bounds the offset; each once."""
    messages = np.unique(messages)
    return telling(messages[messages["here"] >= messages["here"].max() - KEPT_NS])


ALONE = Hosts(compare=False)
