"""What the cases are told from: arrays by request and by engine, taken from splits and what was kept of the events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kvscope.diagnosis.failures import Failures, gather_failures
from kvscope.diagnosis.kept import NEVER, TEXT_KEY, Kept, kept_of, slim
from kvscope.diagnosis.load import Free, Steps, gather_free, gather_steps
from kvscope.model.events import Events, Process
from kvscope.model.graph import NODE, STAGE_INDEX
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGES
from kvscope.probe.vocabulary import UNKNOWN, VALUES

STAGE_NAMES: tuple[str, ...] = tuple(stage.name for stage in STAGES)
NOT_TOLD, UNHEARD_OF = -1, -2
CAUSES = (("registration_sent", "registration_received"), ("prepared", "notified"), ("P.computed", "notified"))
"""Moments of one engine that another's have to come after."""


@dataclass(frozen=True)
class Contacts:
    """First contacts between engines, in order of time."""

    engine: np.ndarray
    """(k,) index into the splits' engines, -1 not known"""
    begin: np.ndarray
    end: np.ndarray
    """(k,) ns; UNKNOWN where none was seen"""


@dataclass(frozen=True)
class Evidence:
    """n requests of one recording, or some of them, and what their engines did meanwhile."""

    splits: Splits
    free: Free
    steps: Steps
    failures: Failures
    held: np.ndarray
    """(n,) bool: refused admission on decode for want of blocks"""
    started: tuple[tuple[int, str], ...]
    """(ns, what) of engines and routers that said what they are"""
    first_seen: np.ndarray
    last_seen: np.ndarray
    """(engines,) ns of each engine's first and latest event, UNKNOWN where there is none"""
    first_contact: np.ndarray
    """(n,) bool: under way to its first token when a handshake of one of its engines began"""
    named: np.ndarray
    """(n,) index of the prefill engine that decode was told of, -1 nobody told, -2 one that nothing is known of"""
    settings: dict[str, object]
    """of the engines, where they agree"""
    first: int
    """ns at which the first of all requests began; 0 without any"""
    wall: int | None
    """what to add to that to get ns since 1970; None: nobody told"""

    def __len__(self) -> int:
        return len(self.splits)

    def select(self, rows: np.ndarray) -> Evidence:
        """Some of the requests, (n,) bool, and what failed of them; engines stay whole."""
        return replace(
            self,
            splits=self.splits.select(rows),
            failures=self.failures.select(rows),
            held=self.held[rows],
            first_contact=self.first_contact[rows],
            named=self.named[rows],
        )

    def setting(self, name: str, leg: str) -> object:
        """What the engines of a leg told of themselves, where they agree; else None. leg: prefill, decode"""
        column = self.splits.prefill_engine if leg == "prefill" else self.splits.decode_engine
        told = {repr(value): value for at in np.unique(column[column >= 0]).tolist()
                if (value := self.splits.engines[at].started.get(name)) is not None}  # fmt: skip
        return next(iter(told.values())) if len(told) == 1 else self.settings.get(name) if not told else None

    @cached_property
    def timed(self) -> Evidence:
        """The requests that have a TTFT."""
        return self.select(self.splits.timed)

    @cached_property
    def prompt(self) -> np.ndarray:
        """(n,) f8 tokens that prefill had to compute, NaN where not known"""
        told, cached = self.splits.prompt_tokens, self.splits.cached_tokens
        return np.where(told == UNKNOWN, np.nan, told - np.where(cached == UNKNOWN, 0, cached).astype(float))

    def t(self, node: str) -> np.ndarray:
        """(n,) i8 time of a node, UNKNOWN where it was not seen"""
        return np.asarray(self.splits.time[:, NODE[node]])

    def has(self, node: str) -> np.ndarray:
        """(n,) bool"""
        return np.asarray(self.t(node) != UNKNOWN)

    def between(self, begin: str, end: str) -> np.ndarray:
        """(n,) f8 ns from one node to another, NaN where one is missing"""
        known = self.has(begin) & self.has(end)
        return np.where(known, self.t(end) - self.t(begin), np.nan)

    def stage(self, *names: str) -> np.ndarray:
        """(n,) f8 exposed ns of some stages together"""
        return np.asarray(self.splits.exposed[:, [STAGE_INDEX[name] for name in names]].sum(axis=1, dtype=float))

    @cached_property
    def when(self) -> np.ndarray:
        """(n,) ns at which a request began, its latest moment where that is not known"""
        return _when(self.splits)

    @cached_property
    def late_registration(self) -> np.ndarray:
        """(n,) bool: a push whose registration was sent after its finished blocks were handed over"""
        sent, staged = self.t("registration_sent"), self.t("staged")
        return np.asarray(self.has("registration_sent") & self.has("staged") & (sent > staged))

    @cached_property
    def waited_for_registration(self) -> np.ndarray:
        """(n,) f8 ns that finished blocks waited for a registration that was sent late, 0 where it was not"""
        until = np.where(self.has("registration_received"), self.t("registration_received"), self.t("staged"))
        return np.where(self.late_registration, np.maximum(until - self.t("staged"), 0), 0.0)

    @cached_property
    def rate(self) -> np.ndarray:
        """(n,) f8 bytes/s over the upper bound of the time in which they moved, NaN where not known"""
        moving = self.stage("submit", "wire", "poll_gap")
        known = (self.splits.transfer_bytes > 0) & (moving > 0)
        return np.where(known, self.splits.transfer_bytes * 1e9 / np.where(known, moving, 1), np.nan)

    @cached_property
    def crowd(self) -> np.ndarray:
        """(n,) f8 transfers under way when each began, itself included; NaN without one. Those that come while it is
        under way are left out: a slow one would have more of them."""
        begin, end = self.t("prepared"), self.t("transferred")
        known = (begin != UNKNOWN) & (end != UNKNOWN)
        begins, ends = np.sort(begin[known]), np.sort(end[known])
        others = np.searchsorted(begins, begin, "right") - np.searchsorted(ends, begin, "right")
        return np.where(known, others, np.nan)

    @cached_property
    def backwards(self) -> np.ndarray:
        """(n,) f8 ns by which something was received before it was sent, or lies after what it led to; 0 as a rule"""
        path = self.splits.walks[:, 0].copy()
        path[:, [NODE["posted"], NODE["P.posted"]]] = False  # stamped after a call in which the next may have begun
        # Of a request that is not whole, moments seem out of order that are only missing.
        path[self.splits.missing.any(axis=1)] = False
        time = np.where(path, self.splits.time[:, : path.shape[1]], NEVER)
        after = np.minimum.accumulate(time[:, ::-1], axis=1)[:, ::-1]
        found = np.where(path, time - after, 0).max(axis=1, initial=0).astype(float)
        for cause, effect in CAUSES:
            both = self.has(cause) & self.has(effect)
            found = np.maximum(found, np.where(both, self.t(cause) - self.t(effect), 0))
        return np.asarray(found)

    @cached_property
    def pushed(self) -> np.ndarray:
        """(n,) bool: the handoff was, or was to be, a write"""
        nodes = [NODE[name] for name in ("registration_sent", "registration_received", "matched", "P.handed")]
        return np.asarray((self.splits.time[:, nodes] != UNKNOWN).any(axis=1))

    def poll_step(self) -> np.ndarray:
        """(n,) f8 ns of the step whose end a completion waited for: the longer of the poster's when it looked, and
        decode's when it was told; NaN where not known"""
        looked = self.steps.during(self._poster, self.t("done_seen"))
        told = self.steps.during(self.splits.decode_engine, self.t("notified"))
        return np.asarray(np.fmax(looked, told))

    @property
    def _poster(self) -> np.ndarray:
        return np.where(self.pushed, self.splits.prefill_engine, self.splits.decode_engine)


def gather_evidence(events: Events, splits: Splits) -> Evidence:
    """Of a recording at once. `splits` were made from `events`."""
    return evidence_of(kept_of([events]), slim(splits))


def evidence_of(kept: Kept, splits: Splits) -> Evidence:
    """From what was kept of the events that `splits` were made from."""
    engine = engine_numbers(kept.processes, splits)
    first, last = kept.reaches(engine, len(splits.engines))
    begun = int(_when(splits).min()) if len(splits) else 0
    return Evidence(
        splits=splits,
        free=gather_free(kept, engine, splits),
        steps=gather_steps(kept, engine),
        failures=gather_failures(kept, engine, splits),
        held=np.isin(splits.request, kept.column("held", "request")),
        started=_started(kept),
        first_seen=first,
        last_seen=last,
        first_contact=_first_contact(splits, _contacts(kept, engine)),
        named=_named(kept, splits),
        settings=_settings(splits),
        first=begun,
        wall=kept.offset(begun),
    )


def _when(splits: Splits) -> np.ndarray:
    """(n,) see `Evidence.when`"""
    return np.where(splits.origin == UNKNOWN, splits.last_moment[:, 2], splits.origin)


def engine_numbers(processes: Sequence[Process], splits: Splits) -> np.ndarray:
    """(processes,) index of each process's engine among the splits', -1 where it is none"""
    by_id = {engine.engine_id: at for at, engine in enumerate(splits.engines) if engine.engine_id}
    by_name = {engine.engine: at for at, engine in enumerate(splits.engines)}
    return np.array([by_id.get(p.engine_id, by_name.get(p.engine, -1)) for p in processes], np.int32)


def _contacts(kept: Kept, engine: np.ndarray) -> Contacts:
    begun, done = kept.rare("handshake_begun"), kept.rare("handshake_ended")
    done = done[done["values"][:, VALUES["handshake_ended"].index("rtt_ns")] != UNKNOWN]
    whose = engine[begun["process"]]
    ends = dict(zip(_ends(done, engine), done["t"].tolist(), strict=True))
    keys = zip(whose.tolist(), begun["values"][:, 0].tolist(), strict=True)
    return Contacts(whose, begun["t"], np.array([ends.get(key, UNKNOWN) for key in keys], np.int64))


def _ends(done: np.ndarray, engine: np.ndarray) -> Iterator[tuple[int, int]]:
    return zip(engine[done["process"]].tolist(), done["values"][:, 0].tolist(), strict=True)


def _first_contact(splits: Splits, contacts: Contacts) -> np.ndarray:
    """(n,) bool. Where no handshake was seen the pair knew each other before the recording began."""
    found = np.zeros(len(splits), bool)
    end = np.where(splits.first_token == UNKNOWN, splits.last_moment[:, 2], splits.first_token)
    for engine in np.unique(contacts.engine).tolist():
        begins = contacts.begin[contacts.engine == engine]  # in order of time
        mine = (splits.prefill_engine == engine) | (splits.decode_engine == engine)
        met = np.searchsorted(begins, end, "right") > np.searchsorted(begins, splits.origin)
        found |= mine & (splits.origin != UNKNOWN) & met
    return found & (splits.prefill_engine >= 0) & (splits.decode_engine >= 0)


def _named(kept: Kept, splits: Splits) -> np.ndarray:
    """(n,) see `Evidence.named`"""
    request, told = kept.column("told", "request"), kept.column("told", "engine")
    ids = {engine.engine_id or engine.engine: number for number, engine in enumerate(splits.engines)}
    names: dict[str, list[int]] = {}
    for number, engine in enumerate(splits.engines):
        names.setdefault(engine.engine, []).append(number)
    ids |= {name: numbers[-1] for name, numbers in names.items() if name and name not in ids}
    order = np.lexsort((told, kept.column("told", "t"), request))
    keys, first = np.unique(request[order], return_index=True)
    if not len(keys):
        return np.full(len(splits), NOT_TOLD)
    where = np.searchsorted(keys, splits.request)
    where[where == len(keys)] = 0
    meant, which = np.unique(told, return_inverse=True)
    engines = np.array([ids.get(kept.texts.get(key & TEXT_KEY, ""), UNHEARD_OF) for key in meant.tolist()])
    return np.where(keys[where] == splits.request, engines[which[order][first]][where], NOT_TOLD)


def _started(kept: Kept) -> tuple[tuple[int, str], ...]:
    found = {}
    rows = kept.rare("started")
    for t, process in zip(rows["t"].tolist(), rows["process"].tolist(), strict=True):
        told = kept.processes[process]
        version = told.started.get("version") or told.started.get("vllm") or ""
        found[f"{told.engine or told.started.get('name', 'a process')} {version}".strip()] = t
    return tuple(sorted((t, what) for what, t in found.items()))


def _settings(splits: Splits) -> dict[str, object]:
    found: dict[str, object] = {}
    for engine in splits.engines:
        for name, value in engine.started.items():
            found[name] = value if found.get(name, value) == value else None
    return {name: value for name, value in found.items() if value is not None}
