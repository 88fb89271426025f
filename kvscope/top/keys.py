"""The one table of keys: bindings, the line at the foot and the page of help are made of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Key:
    """One thing that a key does."""

    keys: str
    """As Textual names them, with commas between."""
    action: str
    shown: str
    """How the key is written for people."""
    brief: str
    """A word or two, for the foot; empty: not there."""
    meaning: str
    where: str = ""
    """A heading of the help page: which view or source it is for."""
    before: bool = False
    """Before Textual's own use of it."""


KEYS: tuple[Key, ...] = (
    Key("question_mark,f1,h", "help", "?", "keys", "this page; Esc goes back, 1 to 6 to a view"),
    Key("1", "view('overview')", "1", "over", "overview: what leads, since when, and where"),
    Key("2", "view('engines')", "2", "engines", "a row for each engine"),
    Key("3", "view('pairs')", "3", "pairs", "prefill by decode, and the ten worst"),
    Key("4", "view('requests')", "4", "requests", "under way and finished"),
    Key("5", "view('stuck')", "5", "stuck", "what waits now, for what"),
    Key("6", "view('commitment')", "6", "price", "what early commitment bought and cost"),
    Key("tab", "turn(1)", "Tab", "", "next view; Shift-Tab: the one before", before=True),
    Key("shift+tab", "turn(-1)", "S-Tab", "", "", before=True),
    Key("p", "pause", "p", "pause", "freeze what is shown (a replay stands still); what is collected goes on"),
    Key("s", "save", "s", "save", "save a recording of the last minutes here"),
    Key("e", "export", "e", "export", "write this view here as SVG, text and JSON"),
    Key("q,ctrl+c", "quit", "q", "quit", "leave"),
    Key("ctrl+z", "suspend_process", "C-z", "", "stop, and give the terminal to the shell; `fg` goes on"),
    Key("up,k", "move(-1)", "Up", "", "one up; PgUp, PgDn, Home, End as usual", "In a list"),
    Key("down,j", "move(1)", "Down", "", "", "In a list"),
    Key("pageup", "page(-1)", "PgUp", "", "", "In a list"),
    Key("pagedown", "page(1)", "PgDn", "", "", "In a list"),
    Key("home", "edge(-1)", "Home", "", "", "In a list"),
    Key("end", "edge(1)", "End", "", "", "In a list"),
    Key("enter", "open", "Enter", "", "the request on its axis; of an engine or a pair, its requests", "In a list"),
    Key("slash", "filter", "/", "filter", "which requests: see below; empty: all", "Requests"),
    Key("less_than_sign", "sort(-1)", "<", "", "sort by the figure before", "Requests"),
    Key("greater_than_sign", "sort(1)", ">", "", "sort by the next figure", "Requests"),
    Key("r", "reverse", "r", "", "the other way round", "Requests"),
    Key("f", "figure", "f", "", "another figure", "Pairs"),
    Key("z", "zoom", "z", "", "the whole axis, or from the end of prefill on", "Waterfall"),
    Key(
        "escape,backspace",
        "clear",
        "Esc",
        "",
        "back to the list, and 1 to 6 to a view; in the list: no filter",
        "Waterfall",
    ),
    Key("space", "pause", "Space", "", "play and stand still", "Replay"),
    Key("right", "step(1)", "Right", "", "a quarter of a second on", "Replay"),
    Key("left", "step(-1)", "Left", "", "a quarter of a second back", "Replay"),
    Key("right_square_bracket", "speed(1)", "]", "", "faster", "Replay"),
    Key("left_square_bracket", "speed(-1)", "[", "", "slower", "Replay"),
    Key("g", "seek", "g", "", "go to a time: 90s, 1m30s, +10s, -10s", "Replay"),
)
