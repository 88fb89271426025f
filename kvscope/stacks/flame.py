"""Samples as a flame graph: an SVG that stands alone. Engine, role, frames; each as wide as it has samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

import numpy as np

from kvscope.stacks.doing import GIL_WAIT, WAITING, doings, named, parted
from kvscope.stacks.profile import UNKNOWN_ROLE
from kvscope.stacks.reading import Stacks

WIDTH, ROW, TOP, MARGIN = 1200, 18, 64, 10
CHARACTER = 6.6
"""Width of a letter of the labels."""
LEAST_WIDTH = 0.4
"""Narrower frames are left out: nobody could see them."""

# Middle lightness, legible under black letters; told apart by colour-blind readers.
COLOURS: dict[str, str] = {
    GIL_WAIT: "#e4572e",
    WAITING: "#c9c9c9",
    "spinning": "#a8a8b4",
    "pausing": "#bdbdc8",
    "forward": "#6fbf9a",
    "sampler": "#9ad1b5",
    "scheduler": "#f0c05a",
    "engine loop": "#f5dc9c",
    "descriptors": "#e68f5c",
    "connector": "#f0b27a",
    "NIXL post": "#5fa8dc",
    "NIXL poll": "#8cc1e8",
    "NIXL notify": "#a6cfec",
    "NIXL": "#b5d8f1",
    "kvscope": "#b98fd0",
}
OTHERS = "#e3d9cf"
GROUND = "#dddddd"


@dataclass
class _Node:
    name: str
    colour: str
    count: int = 0
    children: dict[str, _Node] = field(default_factory=dict)

    def child(self, name: str, colour: str) -> _Node:
        return self.children.setdefault(name, _Node(name, colour))

    def colours(self) -> Iterator[str]:
        """Of it, and of all that is above it."""
        yield self.colour
        for child in self.children.values():
            yield from child.colours()

    def depth(self) -> int:
        return 1 + max((child.depth() for child in self.children.values()), default=0)


def flame(stacks: Stacks, title: str) -> Iterator[str]:
    """The SVG, in pieces."""
    root = _tree(stacks)
    height = TOP + ROW * root.depth() + MARGIN
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="ui-monospace, Menlo, Consolas, monospace" font-size="11">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        f'<text x="{MARGIN}" y="26" font-size="14" font-weight="bold">{escape(title)}</text>\n{_legend(root)}'
    )
    if root.count:
        yield from _drawn(root, MARGIN, height - MARGIN - ROW, (WIDTH - 2 * MARGIN) / root.count, root.count)
    yield "</svg>\n"


def _legend(root: _Node) -> str:
    """What the colours mean that are in it."""
    used, x, told = set(root.colours()), float(MARGIN), ""
    for name, colour in COLOURS.items():
        if colour in used:
            told += f'<rect x="{x:.1f}" y="38" width="11" height="11" rx="1" fill="{colour}"/>'
            told += f'<text x="{x + 15:.1f}" y="48">{escape(name)}</text>\n'
            x += 15 + CHARACTER * (len(name) + 2)
    return told


def _tree(stacks: Stacks) -> _Node:
    root = _Node("all", GROUND)
    codes, names = doings(stacks)
    alike = np.column_stack([stacks.samples["thread"], stacks.samples["stack"], codes])
    found, counts = np.unique(alike, axis=0, return_counts=True)
    for (number, stack, code), count in zip(found.tolist(), counts.tolist(), strict=True):
        thread = stacks.threads[number]
        role = thread.role if thread.role != UNKNOWN_ROLE else thread.name
        frames = stacks.frames[stack]
        painted = (_painted(frame, place == len(frames) - 1) for place, frame in enumerate(frames))
        path = [(thread.engine, GROUND), (role, GROUND), *painted]
        if names[code] in (GIL_WAIT, WAITING):
            path.append((names[code], COLOURS[names[code]]))
        _grow(root, path, count)
    return root


def _grow(root: _Node, path: list[tuple[str, str]], count: int) -> None:
    node = root
    node.count += count
    for name, colour in path:
        node = node.child(name, colour)
        node.count += count


def _painted(frame: str, innermost: bool) -> tuple[str, str]:
    """A frame without its line, and the colour of what it says a thread does."""
    function, file = parted(frame)
    return f"{function} ({file})", COLOURS.get(named(frame, innermost), OTHERS)


def _drawn(node: _Node, x: float, y: int, scale: float, whole: int) -> Iterator[str]:
    width = node.count * scale
    if width < LEAST_WIDTH:
        return
    told = f"{node.name}: {node.count:,} samples, {100 * node.count / whole:.1f}%"
    yield (
        f'<g><title>{escape(told)}</title><rect x="{x:.1f}" y="{y}" width="{max(width - 0.5, 0.3):.1f}"'
        f' height="{ROW - 1}" rx="1" fill="{node.colour}"/>{_label(node.name, x, y, width)}</g>\n'
    )
    for child in sorted(node.children.values(), key=lambda child: child.name):
        yield from _drawn(child, x, y - ROW, scale, whole)
        x += child.count * scale


def _label(name: str, x: float, y: int, width: float) -> str:
    room = int((width - 6) / CHARACTER)
    if room < 3:
        return ""
    shown = name if len(name) <= room else name[: room - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return f'<text x="{x + 3:.1f}" y="{y + 13}">{escape(shown)}</text>'
