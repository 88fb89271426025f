"""Pages of this folder, made anew from the recordings that lie here.

With folders of cases that `kvscope lab incident` made: keep those first, redacted, each beside what was done.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import replace
from pathlib import Path

from kvscope.cli import main
from kvscope.lab.case import TRUTH, Truth, read_truth, truth_of, write_truth
from kvscope.lab.cases import CASES
from kvscope.lab.making import RECORDING
from kvscope.sources import open_sources

HERE = Path(__file__).parent

PAGE = """\
# {name}

{Done}.

{truth}. Made {times} on a real pair; the same again:

    kvscope lab incident {name}

Named first, each time: {named}.

What `kvscope diagnose {words} --paste` says of [the first]({first}):

```
{paste}
```
"""


def keep(folder: Path) -> None:
    """Share a made incident into this folder, under the next free number."""
    truth = read_truth(folder / TRUTH)
    number = len(takes(truth.name)) + 1
    path = HERE / f"{truth.name}-{number}.kvs"
    assert said("share", str(folder / RECORDING), "-o", str(path))
    moved = first_event(path) - first_event(folder / RECORDING)
    phases = tuple((begin + moved, end + moved, bad) for begin, end, bad in truth.phases)
    case = next(case for case in CASES if case.name == truth.name)
    beside = f"{case.beside}-{number}" if case.beside else ""
    write_truth(path.with_suffix(".json"), replace(truth_of(case, phases), beside=beside))


def takes(name: str) -> list[Path]:
    """The recordings of a case that are kept, the first first."""
    return sorted(HERE.glob(f"{name}-[0-9]*.kvs"))


def first_event(path: Path) -> int:
    """ns"""
    rows = open_sources([path]).events.rows
    return int(rows["t"][rows["t"] > 0].min())


def said(*words: str) -> str:
    """What a verb prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(list(words)) == 0
    return out.getvalue()


def page(name: str) -> str:
    """A case's page."""
    recordings = takes(name)
    truth = read_truth(recordings[0].with_suffix(".json"))
    words = words_for(recordings[0])
    return PAGE.format(
        name=name,
        Done=truth.done[0].upper() + truth.done[1:],
        truth=told(truth),
        times="once" if len(recordings) == 1 else f"{len(recordings)} times",
        named=", ".join(map(named_first, recordings)),
        words=" ".join(words),
        first=recordings[0].name,
        paste=said("diagnose", *placed(words), "--paste").rstrip(),
    )


def words_for(recording: Path) -> list[str]:
    """What to type after `diagnose`, in this folder."""
    beside = read_truth(recording.with_suffix(".json")).beside
    return [recording.name, *(("--baseline", f"{beside}.kvs") if beside else ())]


def placed(words: list[str]) -> list[str]:
    """The same, from anywhere."""
    return [str(HERE / word) if word.endswith(".kvs") else word for word in words]


def named_first(recording: Path) -> str:
    """The slug that diagnose names first."""
    findings = json.loads(said("diagnose", *placed(words_for(recording)), "--json"))["findings"]
    return f"`{findings[0]['slug']}`" if findings else "nothing"


def told(truth: Truth) -> str:
    """What is to be found."""
    if not truth.slug:
        return "Nothing is wrong, and nothing is to be found"
    return f"To be found: `{truth.slug}`, in `{truth.stage}` ({truth.cls}); the culprit: {truth.culprit}"


if __name__ == "__main__":
    for given in sys.argv[1:]:
        keep(Path(given))
    for case in CASES:
        if takes(case.name):
            (HERE / f"{case.name}.md").write_text(page(case.name))
