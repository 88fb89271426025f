"""Draw the pictures of this folder anew: what the commands print about the recordings that lie here, as SVG."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
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
    "profile": "kvscope profile push-profile | sed -n '1,25p; /registration_flight/,/decode_queue/p' | head -n -1",
}
"""File name -> the command whose output it shows. Commands run in this folder."""

WRITTEN = {"profile-flame": "kvscope profile push-profile --stage poll_gap --force --flame"}
"""File name -> the command that writes the picture itself."""

TOP = "kvscope top --replay push-early.kvs --without warmup- --paused --at"
SCREENS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "top": (f"{TOP} 22s", (), "TTFT ms"),
    "top-requests": (f"{TOP} 22s --view requests", (">",), "by ttft"),
    "top-waterfall": (f"{TOP} 22s --view requests", (">", "Enter"), "detail,"),
}
"""File name -> command, keys typed to it, and what is on the screen when it is there. Taken from a terminal of tmux."""
ROWS = 30
PATIENCE_S = 20.0

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


def screen(command: str, keys: tuple[str, ...], sign: str) -> str:
    """What the command shows on a terminal once `sign` is there, with its colours."""
    tmux = ["tmux", "-L", f"kvscope-pictures-{os.getpid()}"]
    size = ["-x", str(COLUMNS), "-y", str(ROWS)]
    typed = f"{Path(sys.executable).parent}/{command}"  # a shell of tmux has a PATH of its own
    subprocess.run([*tmux, "new-session", "-d", *size, "-e", "COLORTERM=truecolor", typed], cwd=HERE, check=True)
    try:
        subprocess.run([*tmux, "set", "-g", "default-terminal", "tmux-256color"], check=True)
        _until(tmux, "events/s")
        for key in keys:
            subprocess.run([*tmux, "send-keys", key], check=True)
            time.sleep(0.5)
        _until(tmux, sign)
        return subprocess.run([*tmux, "capture-pane", "-e", "-p"], check=True, capture_output=True, text=True).stdout
    finally:
        subprocess.run([*tmux, "kill-server"], check=True)


def _until(tmux: list[str], sign: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        shown = subprocess.run([*tmux, "capture-pane", "-p"], check=True, capture_output=True, text=True).stdout
        if sign in shown:
            return
        time.sleep(0.2)
    raise SystemExit(f"{sign!r} did not come within {PATIENCE_S:.0f} s; the screen shows\n{shown}")


def drawn(name: str, command: str, output: str) -> str:
    """The command and its output as SVG."""
    console = Console(
        record=True, file=io.StringIO(), width=COLUMNS + 2, force_terminal=True, color_system="truecolor",
        highlight=False,
    )  # fmt: skip
    console.print(Text(f"$ {command}\n", "bold"))
    console.print(Text.from_ansi(output.rstrip("\n")))
    return console.export_svg(title="", theme=THEME, code_format=FRAME, unique_id=name)


def main() -> None:
    """All pictures, or those whose names are given."""
    for name in sys.argv[1:] or (*PICTURES, *WRITTEN, *SCREENS):
        if name in WRITTEN:
            printed(f"{WRITTEN[name]} {name}.svg")
            continue
        command = PICTURES[name] if name in PICTURES else SCREENS[name][0]
        output = printed(command) if name in PICTURES else screen(*SCREENS[name])
        (HERE / f"{name}.svg").write_text(drawn(name, command, output))


if __name__ == "__main__":
    main()
