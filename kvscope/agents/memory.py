"""What an aggregator that is started anew finds of the one before, in the marks that it left. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvscope.agents.accounts import Account, Run, account_of, opened
from kvscope.probe.recording import MARK, Frames, MarkPart, RecordingError, unpacked
from kvscope.sources.rotation import parts_of

RUNS = 4096
"""Runs of agents that are remembered; the one that has been silent longest is forgotten."""
ACCOUNTS = 100_000
"""The same of processes: some never say that they have ended, since their host is gone."""


@dataclass
class Memory:
    """All that has to outlive the aggregator. A mark after each batch says what that changed, one at a part's begin
    says all of it."""

    runs: dict[str, Run] = field(default_factory=dict)
    """by recording, the one heard last at the end"""
    accounts: dict[str, Account] = field(default_factory=dict)
    """by host and process"""
    next: int = 0
    """number of the next process"""

    def run(self, recording: str) -> Run:
        """One run of an agent, from now on the one heard last."""
        found = self.runs[recording] = self.runs.pop(recording, Run())
        while len(self.runs) > RUNS:
            self.runs.pop(next(iter(self.runs)))
        return found

    def account(self, whole: str) -> Account | None:
        """Of a process, from now on the one heard last; None: nothing was heard of it."""
        found = self.accounts.pop(whole, None)
        if found is not None:
            self.accounts[whole] = found
        return found

    def open(self, whole: str, info: Mapping[str, Any], dropped: int) -> Account:
        """Of a process that is heard of for the first time; `dropped` as of `opened`."""
        found = self.accounts[whole] = opened(self.next, info, dropped)
        self.next += 1
        while len(self.accounts) > ACCOUNTS:
            self.accounts.pop(next(iter(self.accounts)))
        return found

    def whole(self) -> dict[str, Any]:
        """For a mark at the begin of a part. Processes that have ended are left out: nothing more of them comes."""
        self.accounts = {key: each for key, each in self.accounts.items() if not each.ended}
        return {
            "runs": {recording: run.told() for recording, run in self.runs.items()},
            "accounts": {key: each.told() for key, each in self.accounts.items()},
            "next": self.next,
        }

    def after(self, mark: Mapping[str, Any]) -> None:
        """Learn what a mark says."""
        self.runs |= {recording: Run(**told) for recording, told in mark.get("runs", {}).items()}
        self.accounts |= {key: account_of(told) for key, told in mark.get("accounts", {}).items()}
        self.next = max(self.next, int(mark.get("next", 0)))


def remembered(folder: Path) -> Memory:
    """By the marks in a folder's newest part that has any. What lies after its last mark was never acknowledged and
    will come again: it is cut off. Nobody may be writing there. OSError: it cannot be read, or not be cut."""
    memory = Memory()
    for path in reversed(parts_of(folder) if folder.is_dir() else []):
        marks, end = _marks(path)
        if marks:
            if end < path.stat().st_size:
                os.truncate(path, end)
            for mark in marks:
                memory.after(mark)
            return memory
    return memory


def _marks(path: Path) -> tuple[list[dict[str, Any]], int]:
    """(what the marks say, where the last one ends; or the part, where it was ended)"""
    found, end = list[dict[str, Any]](), 0
    try:
        with path.open("rb") as file:
            frames = Frames(file)
            for frame in frames:
                part = unpacked(frame.kind, frame.payload) if frame.kind == MARK else None
                if isinstance(part, MarkPart) and "accounts" in part.info:
                    found.append(part.info)
                    end = frame.at + len(frame.payload)
    except (OSError, RecordingError):
        return found, end
    return found, end
