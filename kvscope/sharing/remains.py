"""What is still in a recording that is given away: for the person who gives it, before it leaves the house."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvscope.probe.ids import HASH, KEEP
from kvscope.sharing import allowed
from kvscope.sharing.allowed import Rule
from kvscope.sharing.share import Shared

HEADINGS = ("what", "is in it")
VERSIONS = ("vllm", "nixl", "torch", "python")
HANDOFF = ("connector", "mode", "placement", "backends", "ucx_tls")
NAMED = ("model", "gpu")
SETTINGS = tuple(
    name
    for name, field in allowed.STARTED.items()
    if field.rule in (Rule.KEPT, Rule.ROUNDED) and name not in ("rank", "dp_rank")
)
SECOND = 1e9
SHOWN = 6
"""Names that a line lists."""


def remains(shared: Shared) -> list[tuple[str, str]]:
    """(what, what of it is in the file): the rows of a table."""
    rows = (*_events(shared), *_who(shared), *_told(shared), *_changed(shared))
    return [row for row in rows if row[1]]


def warnings(shared: Shared) -> Iterator[str]:
    """What could still tell somebody whose it is: sentences."""
    yield "when requests came, how many and how long each took: who has seen the same load knows it again"
    yield "versions and settings as above, and counters of steps and events, which grow while an engine runs"
    kept = [name for name in NAMED if name in shared.wishes.keep]
    if kept:
        yield f"the {' and the '.join(kept)}, which you kept"
    if shared.wishes.keep_time:
        yield "the time of day, which you kept"
    if shared.wishes.secret is not None:
        yield "names: they are the same in all that is shared with the key, and who has it can tell whose they are"
    if shared.wishes.ids == KEEP:
        yield "request ids, which you kept: they can hold addresses, and names of customers"


def _events(shared: Shared) -> Iterator[tuple[str, str]]:
    survey = shared.survey
    spans = [survey.last[host] - first for host, first in survey.first.items()]
    yield "events", f"{survey.events:,} in {max(spans, default=0) / SECOND:.1f} s"
    keyed = "by as much as the key says" if shared.wishes.secret is not None else "so that it begins at 1 s"
    yield "clock", f"each host's own, shifted {keyed}; the time of day is {_kept(shared.wishes.keep_time)}"
    ids = f"some {shared.ids:,}"
    whose = "your key" if shared.wishes.secret is not None and shared.wishes.ids == HASH else "a key that nobody has"
    yield "request ids", f"{ids}, as they were" if shared.wishes.ids == KEEP else f"{ids}, hashed with {whose}"


def _who(shared: Shared) -> Iterator[tuple[str, str]]:
    infos = list(shared.infos.values())
    yield "processes", f"{len({info.get('pid') for info in infos}):,}"
    for title, name in (("engines", "engine"), ("models", "model"), ("GPUs", "gpu")):
        yield title, _listed(_values(infos, name))
    yield "hosts", _listed(sorted({str(info.get("boot_id", "")) for info in infos}))
    for name in ("node_name", "pod", "namespace", "node"):
        yield f"{name.replace('_', ' ')}s", _listed(_values(infos, name))


def _told(shared: Shared) -> Iterator[tuple[str, str]]:
    infos = list(shared.infos.values())
    yield "versions", ", ".join(f"{name} {each}" for name in VERSIONS for each in _values(infos, name))
    yield "handoff", ", ".join(each for name in HANDOFF for each in _values(infos, name))
    yield "settings", ", ".join(f"{name} {'/'.join(found)}" for name in SETTINGS if (found := _values(infos, name)))


def _changed(shared: Shared) -> Iterator[tuple[str, str]]:
    rounded = [
        name for name, field in (*allowed.VALUES.items(), *allowed.STARTED.items()) if field.rule == Rule.ROUNDED
    ]
    if shared.samples:
        yield "stacks", f"{shared.samples:,} samples: functions of packages that everybody has, and of no other"
    yield "rounded by up to 1/9", f"{', '.join(rounded)}: sums and rates of them are off by as much at most"
    gone = (Rule.DROPPED,) if shared.wishes.keep_time else (Rule.DROPPED, Rule.TIMED)
    dropped = shared.dropped | {name for name, field in allowed.VALUES.items() if field.rule in gone}
    yield "dropped", ", ".join(sorted(dropped))
    yield "not known, so dropped", ", ".join(sorted(shared.undecided))
    yield "records dropped", f"{shared.unknown:,} of moments that this version does not know" if shared.unknown else ""


def _values(infos: list[dict[str, Any]], name: str) -> list[str]:
    """What processes say under a name, each answer once, as text."""
    told = [info["started"][name] for info in infos if name in info.get("started", {})]
    return list(dict.fromkeys("+".join(each) if isinstance(each, list) else str(each) for each in told))


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _kept(kept: bool) -> str:
    return "kept" if kept else "dropped"
