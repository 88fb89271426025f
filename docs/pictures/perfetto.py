"""Take a picture of a trace in Perfetto's own page: `python -m docs.pictures.perfetto` (needs Chromium).

The trace is that of a recording which lies here. It shows one request on all of its tracks, with the arrows of its
registration and its transfer.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from docs.pictures.perfetto_page import PerfettoPage, opened
from kvscope.cli import main as kvscope

HERE = Path(__file__).parent
RECORDING, REQUEST = "push-early.kvs", "3f5e7c86"
WIDTH, HEIGHT = 1400, 1440
UNFOLDED = "^(1 requests|{lane}|2 prefill p0|3 decode d0|worker process.*|p0 writer)$"
LEFT_MS, RIGHT_MS = 8, 12
"""How much of the time before and after the request is shown."""


def show(page: PerfettoPage) -> None:
    """Unfold what the request passes, and choose its match: the page then draws what led there and what followed."""
    ((begin, length, lane),) = page.ask(
        f"SELECT ts, dur, track.name FROM slice JOIN track ON track_id = track.id"
        f" WHERE category = 'request' AND slice.name GLOB '{REQUEST}*'"
    )
    ((matched,),) = page.ask(
        f"SELECT id FROM slice WHERE name = 'matched' AND extract_arg(arg_set_id, 'debug.request') GLOB '*{REQUEST}*'"
    )
    page.command("ExpandTracksByRegex", UNFOLDED.format(lane=lane))
    page.show(begin - LEFT_MS * 10**6, begin + length + RIGHT_MS * 10**6)
    page.select(matched)
    page.settle()
    page.command("ToggleDrawer")  # what is known of it would hide the tracks
    page.settle()


def main() -> None:
    """The picture."""
    with tempfile.TemporaryDirectory(prefix="kvscope-pictures-") as folder:
        trace = Path(folder) / "trace.pftrace"
        if kvscope(["export", str(HERE / RECORDING), "--perfetto", str(trace)]):
            raise SystemExit("the trace could not be made")
        with opened(trace, WIDTH, HEIGHT) as page:
            show(page)
            page.page.screenshot(path=HERE / "perfetto.png")


if __name__ == "__main__":
    main()
