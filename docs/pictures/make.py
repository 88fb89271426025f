"""Draw the pictures of this folder anew: what the commands print about the recordings that lie here, as SVG."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

HERE = Path(__file__).parent
COLUMNS = 100

REPORT = "kvscope report push-early.kvs --without warmup-"
PICTURES = {
    "report": f"{REPORT} | head -36",
    "report-whole": REPORT,
    "request": "kvscope request 3f5e7c86 push-early.kvs",
}
"""File name -> the command whose output it shows. Commands run in this folder."""

# A ground of its own: pages that show the picture are white for some readers and black for others.
THEME = TerminalTheme(
    background=(22, 25, 31),
    foreground=(216, 220, 227),
    normal=[(0, 0, 0), (205, 92, 92), (120, 180, 120), (210, 180, 90), (100, 150, 210), (180, 120, 190),
            (90, 180, 190), (200, 200, 200)],
)  # fmt: skip

# Rich's own frame without its window and its fonts: a forge loads nothing from elsewhere for a picture.
FRAME = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace;
font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def printed(command: str) -> str:
    """What a command prints on a terminal with colours."""
    looks = {"FORCE_COLOR": "1", "COLORTERM": "truecolor", "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    path = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environ = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | looks | path
    return subprocess.run(command, shell=True, cwd=HERE, env=environ, check=True, capture_output=True, text=True).stdout


def drawn(name: str, command: str) -> str:
    """The command and its output as SVG."""
    console = Console(
        record=True, file=io.StringIO(), width=COLUMNS + 2, force_terminal=True, color_system="truecolor",
        highlight=False,
    )  # fmt: skip
    console.print(Text(f"$ {command}\n", "bold"))
    console.print(Text.from_ansi(printed(command).rstrip("\n")))
    return console.export_svg(title="", theme=THEME, code_format=FRAME, unique_id=name)


def main() -> None:
    """All pictures, or those whose names are given."""
    for name in sys.argv[1:] or PICTURES:
        (HERE / f"{name}.svg").write_text(drawn(name, PICTURES[name]))


if __name__ == "__main__":
    main()
