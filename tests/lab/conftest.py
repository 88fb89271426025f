"""The figures that tests on real engines print are shown though the tests pass: they say what was held to what.
What ends a run ends its engines, too."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("tests.lab.dashboards", "tests.lab.privacy")


@pytest.fixture(scope="session", autouse=True)
def ended_as_by_ctrl_c() -> Iterator[None]:
    """SIGTERM would end the run at once, and leave the engines that its fixtures hold."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what passed tests on engines printed while they ran."""
    passed = [report for report in terminalreporter.getreports("passed") if "lab" in report.keywords]
    told = [(report.nodeid, text) for report in passed if (text := report.capstdout.strip()) and report.when == "call"]
    if told:
        terminalreporter.section("measured on real engines")
    for name, text in told:
        terminalreporter.line(f"{name.rpartition('/')[2]}")
        terminalreporter.line("  " + text.replace("\n", "\n  "))
