"""What threads were doing while each stage was open, counted in samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kvscope.model.splits import Splits
from kvscope.model.stages import STAGES
from kvscope.probe.vocabulary import THREADS
from kvscope.stacks.doing import GIL_WAIT, doings
from kvscope.stacks.openings import Opening, covered, length, openings
from kvscope.stacks.reading import Stacks

UNKNOWN_ROLE = THREADS[0]
NOBODY = "nobody, by the time that was asked"
HOST = 8
"""Characters of a boot id by which `Process.host` tells hosts apart."""


@dataclass(frozen=True)
class Share:
    """The samples of one role of an engine: what they were doing."""

    engine: str
    role: str
    """A role; of a thread that records nothing, its name."""
    samples: int
    doing: Mapping[str, int]
    """what -> samples, most first"""
    held_by: Mapping[str, int]
    """Who held the GIL while this role waited for it, and doing what -> samples"""
    ends: bool = False
    """Whether it is this role that ended the stage, of most requests."""


@dataclass(frozen=True)
class StageProfile:
    """One stage at one engine."""

    stage: str
    engine: str
    requests: int
    """That were in it while samples were taken."""
    open_ns: int
    """How long at least one of them was."""
    exposed_ns: int
    """How long at least one of them was and had it on its path."""
    shares: tuple[Share, ...]
    """By role: the one that ends it first."""


@dataclass(frozen=True)
class Profile:
    """Everything, in samples."""

    stacks: Stacks
    whole: tuple[Share, ...]
    """Of all samples, by engine and role."""
    stages: tuple[StageProfile, ...]
    """In the order of the stages, of those that were open."""
    mapped: float
    """Share of the samples whose thread has a role."""

    def only(self, stage: str | None) -> Profile:
        """The same with one stage alone; all of them where none is named."""
        return replace(self, stages=tuple(each for each in self.stages if stage in (None, each.stage)))

    @property
    def span_ns(self) -> int:
        """From the first to the last sample."""
        t = self.stacks.samples["t"]
        return int(t[-1] - t[0]) if len(t) else 0

    @property
    def error_ns(self) -> tuple[int, int]:
        """How far off a sample's time can be: usually (of half of the stretches), and at most."""
        errors = sorted(clock.error_ns for clock in self.stacks.clocks) or [0]
        return errors[(len(errors) - 1) // 2], errors[-1]


class Sampled:
    """Samples, what each of them was doing, and whose it is."""

    def __init__(self, stacks: Stacks) -> None:
        self.stacks, self.t = stacks, stacks.samples["t"]
        self._codes, self._names = doings(stacks)
        who = [(each.engine, each.role if each.role != UNKNOWN_ROLE else each.name) for each in stacks.threads]
        self._groups = sorted(set(who))
        group_of = np.array([self._groups.index(each) for each in who], np.int32)
        self._group = group_of[stacks.samples["thread"]]
        self._held, self._holders = self._held_by()

    def at(self, engine: str) -> np.ndarray:
        """(n,) bool: samples of that engine."""
        mine = [index for index, (name, _) in enumerate(self._groups) if name == engine]
        return np.isin(self._group, mine)

    def shares(self, which: np.ndarray, ended_by: str = "") -> tuple[Share, ...]:
        """Of some samples (bool mask), by engine and role."""
        group, codes, held = self._group[which], self._codes[which], self._held[which]
        made = [
            self._share(self._groups[index], codes[group == index], held[group == index], ended_by)
            for index in np.unique(group).tolist()
        ]
        return tuple(sorted(made, key=lambda share: (share.engine, not share.ends, _place(share.role), share.role)))

    def _share(self, who: tuple[str, str], codes: np.ndarray, held: np.ndarray, ended_by: str) -> Share:
        did, holders = _counted(codes, self._names), _counted(held[held >= 0], self._holders)
        return Share(*who, len(codes), did, holders, who[1] == ended_by)

    def _held_by(self) -> tuple[np.ndarray, list[str]]:
        """(n,) for each sample that waits for the GIL who held it, doing what, as an index into the list; else -1."""
        samples = self.stacks.samples
        pids = np.array([thread.pid for thread in self.stacks.threads], np.int64)[samples["thread"]]
        holders = np.flatnonzero(samples["gil"] == 1).tolist()
        at_look = {(int(pids[index]), int(self.t[index])): index for index in holders}
        names = {NOBODY: 0}
        held = np.full(len(samples), -1, np.int32)
        for index in np.flatnonzero(samples["waits"]).tolist():
            name = self._holding(at_look.get((int(pids[index]), int(self.t[index]))))
            held[index] = names.setdefault(name, len(names))
        return held, list(names)

    def _holding(self, index: int | None) -> str:
        if index is None:
            return NOBODY
        return f"{self._groups[self._group[index]][1]}: {self._names[self._codes[index]]}"


def _place(role: str) -> int:
    """Roles come as the vocabulary has them, other threads after them."""
    return THREADS.index(role) if role in THREADS else len(THREADS)


def _counted(codes: np.ndarray, names: Sequence[str]) -> dict[str, int]:
    """name -> how often, most first."""
    found, counts = np.unique(codes, return_counts=True)
    order = np.argsort(-counts, kind="stable").tolist()
    return {names[found[place]]: int(counts[place]) for place in order}


def profile(stacks: Stacks, splits: Splits) -> Profile:
    """Map samples onto stages."""
    sampled = Sampled(stacks)
    everything = np.ones(len(stacks.samples), bool)
    roles = stacks.roles()
    mapped = float((roles != UNKNOWN_ROLE).mean()) if len(roles) else 0.0
    return Profile(stacks, sampled.shares(everything), tuple(_stages(sampled, _openings(stacks, splits))), mapped)


def while_open(stacks: Stacks, splits: Splits, stage: str) -> Stacks:
    """The samples of engines at which that stage was open."""
    sampled = Sampled(stacks)
    which = np.zeros(len(stacks.samples), bool)
    spans: dict[str, list[tuple[int, int]]] = {}
    for opening in _openings(stacks, splits):
        if opening.stage == stage:
            spans.setdefault(opening.engine, []).append((opening.begin, opening.end))
    for engine, each in spans.items():
        which |= sampled.at(engine) & covered(sampled.t, each)
    return stacks.select(which)


def _openings(stacks: Stacks, splits: Splits) -> list[Opening]:
    t = stacks.samples["t"]
    return list(openings(splits, stacks.boot_id[:HOST], int(t[0]), int(t[-1]))) if len(t) else []


def _stages(sampled: Sampled, opened: Iterable[Opening]) -> Iterable[StageProfile]:
    groups: dict[tuple[str, str], list[Opening]] = {}
    for opening in opened:
        groups.setdefault((opening.stage, opening.engine), []).append(opening)
    order = {stage.name: index for index, stage in enumerate(STAGES)}
    for (stage, engine), each in sorted(groups.items(), key=lambda group: (order[group[0][0]], group[0][1])):
        spans = [(opening.begin, opening.end) for opening in each]
        exposed = [(opening.begin, opening.end) for opening in each if opening.exposed]
        shares = sampled.shares(sampled.at(engine) & covered(sampled.t, spans), _most(each))
        if shares:
            yield StageProfile(stage, engine, len(each), length(spans), length(exposed), shares)


def _most(opened: list[Opening]) -> str:
    """The role that ended it, of most requests."""
    ((role, _),) = Counter(opening.ended_by for opening in opened).most_common(1)
    return role


def gil_waits(shares: Iterable[Share]) -> list[Share]:
    """Those that waited for the GIL, longest first."""
    return sorted((each for each in shares if each.held_by), key=lambda share: -share.doing.get(GIL_WAIT, 0))
