"""The clocks of the hosts that events come from: what was heard of them before, and what is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kvscope.core.alignment import Aligner, Alignment, as_stamped
from kvscope.core.between import Between
from kvscope.core.clocks import UNTOLD, hosts_of
from kvscope.core.columns import Columns
from kvscope.core.messages import Messages, merged, messages_of
from kvscope.model.events import Process


@dataclass(frozen=True)
class Hosts:
    """What is known of them besides the events at hand."""

    heard: Messages = field(default_factory=dict)
    """Messages between them: exchanges of agents, requests that were given out before"""
    reference: str = ""
    """Whose clock everything is told by; else the first of those at hand, by name"""
    compare: bool = True
    """Whether to compare clocks at all; if not, what lies between hosts stays unaligned"""

    def align(self, columns: Columns, processes: Sequence[Process], lag: np.ndarray, now: int) -> Alignment:
        """columns: as stamped. lag: (processes,) as of `clocks`, by which the clock furthest ahead shows `now`."""
        if not self.compare or columns.legs.hosts.max(initial=UNTOLD) == UNTOLD:  # one host: nothing to compare
            return as_stamped(columns)
        new = messages_of(columns, processes)
        messages = merged((self.heard, new))
        if not messages:
            return as_stamped(columns)
        names = sorted({process.host for process in processes} - {""})
        behind = np.zeros(len(names), np.int64)
        number = hosts_of(processes)
        behind[number[number >= 0]] = lag[number >= 0]
        between = Between(messages)
        reference = self.reference if self.reference in names else names[0]
        found = Aligner(between, names, reference, behind, now).align(columns)
        return replace(found, messages=new, clocks=between.pairs())


ALONE = Hosts(compare=False)
