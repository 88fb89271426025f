"""The figures that tests on real engines print are shown though the tests pass: they say what was held to what."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what passed tests on engines printed while they ran."""
    passed = [report for report in terminalreporter.getreports("passed") if "lab" in report.keywords]
    told = [(report.nodeid, text) for report in passed if (text := report.capstdout.strip()) and report.when == "call"]
    if told:
        terminalreporter.section("measured on real engines")
    for name, text in told:
        terminalreporter.line(f"{name.rpartition('/')[2]}")
        terminalreporter.line("  " + text.replace("\n", "\n  "))
