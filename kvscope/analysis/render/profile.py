"""What threads were doing, as a page: over all the time, then while each stage was open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.text import Text

from kvscope.analysis.render.amounts import duration, share
from kvscope.analysis.render.page import KEPT, Page
from kvscope.analysis.render.palette import HEADING, QUIET, STRONG, WARNING, word_style
from kvscope.model.counting import count
from kvscope.model.stages import STAGE, Class
from kvscope.stacks.doing import GIL_WAIT, WAITING
from kvscope.stacks.profile import Profile, Share, StageProfile, gil_waits

SMALL = 0.01
"""What has less of a role's samples is folded."""
ROLE = 15
"""Width of the column of roles."""
FEW = 20
"""Fewer samples say little, and it is said."""
SELDOM = 3
"""A role of which there are fewer samples has no row in a stage."""
WORTH_SAYING = 0.02
"""Share of a role's samples from which on its waiting for the GIL is explained."""


def put_profile(page: Page, found: Profile, notes: Iterable[str] = ()) -> None:
    """The whole page."""
    _put_title(page, found)
    for note in (*found.stacks.notes, *notes):
        page.labelled("", note, WARNING)
    if not len(found.stacks.samples):
        page.prose("No sample was taken.")
        return
    page.heading("ALL THE TIME", "share of each role's samples")
    for engine in dict.fromkeys(each.engine for each in found.whole):
        page.line(engine, STRONG)
        _put_shares(page, [each for each in found.whole if each.engine == engine], every=True)
    _put_waits(page, found.whole)
    page.heading("WHILE A STAGE WAS OPEN", "the role that ends the stage comes first, with a *")
    shown = [stage for stage in found.stages if STAGE[stage.stage].cls is not Class.FRONTEND]
    for stage in shown:
        _put_stage(page, stage)
    if not shown:
        page.prose("No request was in any stage while samples were taken.")
    _put_limits(page, found)


def _put_title(page: Page, found: Profile) -> None:
    stacks = found.stacks
    engines = ", ".join(dict.fromkeys(thread.engine for thread in stacks.threads))
    page.line(Text.assemble(("kvscope profile", HEADING), f"  {engines}"))
    pids = len({thread.pid for thread in stacks.threads})
    rate = 1e9 / stacks.period_ns
    usual, most = found.error_ns
    page.labelled(
        "SAMPLES",
        f"{count(len(stacks.samples), 'sample')} of {count(len(stacks.threads), 'thread')} in"
        f" {count(pids, 'process', 'processes')}, {duration(found.span_ns)} at {rate:.0f} Hz ({stacks.tool});"
        f" times within {duration(usual)} ({duration(most)} at most); {_mapped(found.mapped)}",
    )


def _mapped(part: float) -> str:
    """How many samples are of threads that have a role, as they record moments."""
    return f"{share(part, 1)} on threads that record" if part else "none of the threads has a role: they record nothing"


def _put_stage(page: Page, stage: StageProfile) -> None:
    cls = STAGE[stage.stage].cls
    exposed = share(stage.exposed_ns, stage.open_ns)
    page.line(
        Text.assemble(
            (f"{cls.glyph} {stage.stage}", word_style(cls)),
            (f"  {stage.engine}", STRONG),
            (f"  open {duration(stage.open_ns)} in {count(stage.requests, 'request')}, {exposed} exposed", QUIET),
        )
    )
    _put_shares(page, stage.shares)


def _put_shares(page: Page, shares: Iterable[Share], every: bool = False) -> None:
    """A row for each role that did something; those that only waited, or were hardly seen, are named together."""
    waited, seldom = [], []
    for each in shares:
        did = each.samples - each.doing.get(WAITING, 0)
        if not (every or each.ends) and did < SMALL * each.samples:
            waited.append(each.role)
        elif not (every or each.ends) and each.samples < SELDOM:
            seldom.append(each.role)
        else:
            few = f" (only {count(each.samples, 'sample')})".replace(" ", KEPT) if each.samples < FEW else ""
            _put_row(
                page,
                f"{each.role}{' *' if each.ends else ''}",
                _listed(each.doing, each.samples) + f" {few}".rstrip(" "),
            )
    for names, what in ((waited, "nothing but waiting"), (seldom, f"seen less than {SELDOM} times")):
        if names:
            page.prose(f"  {'':<{ROLE}}  {', '.join(names)}: {what}", hang=ROLE + 4, style=QUIET)


def _put_row(page: Page, role: str, text: str) -> None:
    shown = role if len(role) <= ROLE else role[: ROLE - 1] + "…"
    start = len(page.lines)
    page.prose(f"  {shown:<{ROLE}}  {text}", hang=ROLE + 4)
    for line in page.lines[start:]:
        _stress(line)


def _stress(line: Text) -> None:
    at = line.plain.find(GIL_WAIT)
    if at >= 0:
        line.stylize(WARNING, at, at + len(GIL_WAIT))


def _listed(doing: Mapping[str, int], samples: int) -> str:
    """`forward 71%, engine loop 15%, 4 more 3%`."""
    large = {name: number for name, number in doing.items() if number >= SMALL * samples or name == GIL_WAIT}
    rest = samples - sum(large.values())
    told = [f"{_whole(name)}{KEPT}{share(number, samples)}" for name, number in large.items()]
    return ", ".join([*told, *([f"{len(doing) - len(large)} more {share(rest, samples)}"] if rest else [])])


def _whole(name: str) -> str:
    """A word that no line breaks; where it names a function there may be no other way."""
    return name if "(" in name else name.replace(" ", KEPT)


def _put_waits(page: Page, shares: Iterable[Share]) -> None:
    waits = [each for each in gil_waits(shares) if each.doing.get(GIL_WAIT, 0) >= WORTH_SAYING * each.samples]
    if not waits:
        return
    page.heading("WHO HELD THE GIL", "while a role waited for it")
    for each in waits:
        waited = each.doing.get(GIL_WAIT, 0)
        page.line(Text.assemble((each.engine, STRONG), f"  {each.role} waited in {share(waited, each.samples)}"))
        _put_row(page, "", _listed(each.held_by, waited))


def _put_limits(page: Page, found: Profile) -> None:
    page.line()
    page.prose(
        "A sample counts once for each stage that was open at its engine, whichever request was in it: these are shares"
        " of time, not of a request's TTFT. Whether a thread that could run had a core is not told, nor what native"
        " code does; a thread that records nothing is seen only while it holds the GIL. API servers record nothing, and"
        " what requests waited for there is left out.",
        style=QUIET,
    )
