"""What a diagnosis cannot know, said beside what it says."""

from __future__ import annotations

from kvscope.analysis.condition import gather_condition
from kvscope.diagnosis.baseline import Comparison, stratum
from kvscope.diagnosis.evidence import Evidence
from kvscope.diagnosis.thresholds import FEWEST
from kvscope.model.counting import count
from kvscope.model.requests import State

COMPARED = ("vllm", "nixl", "connector", "mode", "model", "block_size", "kv_blocks", "prefix_caching", "ucx_tls")
"""Settings that have to be the same for a baseline to show what is usual."""


def unknowns(whole: Evidence, comparison: Comparison) -> tuple[str, ...]:
    """Sentences, the most important first."""
    return (*_incomplete(whole), *_unlike(comparison), *_unusual(comparison))


def _incomplete(whole: Evidence) -> list[str]:
    found = gather_condition(whole.splits)
    told = []
    if found.tally.lost:
        told.append(f"{count(found.tally.lost, 'event')} lost")
    if number := found.states[State.ONE_LEGGED]:
        seen = ", ".join(name for name, _ in found.one_legged[:3])
        told.append(f"{count(number, 'request')} seen from one side ({seen})")
    if number := found.states[State.INCOMPLETE]:
        missing = f" ({found.missing[0][0]} missing)" if found.missing else ""
        told.append(f"{number:,} incomplete{missing}")
    if number := found.states[State.UNMATCHED]:
        told.append(f"{count(number, 'leg')} without the other")
    if number := found.states[State.UNALIGNED]:
        told.append(f"{count(number, 'request')} between clocks that nothing aligned")
    if found.dark:
        told.append("not instrumented: " + ", ".join(name for name, _ in found.dark[:3]))
    return told


def _unlike(comparison: Comparison) -> list[str]:
    if comparison.was is None:
        return []
    one, other = comparison.was.settings, comparison.now.settings
    unlike = [f"{name} {one[name]} -> {other[name]}" for name in COMPARED if name in one and name in other
              and one[name] != other[name]]  # fmt: skip
    return ["the baseline differs: " + ", ".join(unlike)] if unlike else []


def _unusual(comparison: Comparison) -> list[str]:
    timed = len(comparison.now.timed)
    if timed < FEWEST.value:
        return [f"{count(timed, 'request')} with a TTFT: too few to say what has grown"]
    if comparison.was is None:
        return ["what is usual: no change was found, and no --baseline was given"]
    known = set(stratum(comparison.was.timed.prompt).tolist())
    new = int(sum(one not in known for one in stratum(comparison.now.timed.prompt).tolist()))
    if not new:
        return []
    return [f"what is usual for {count(new, 'request')} with prompts of lengths that the baseline does not have"]
