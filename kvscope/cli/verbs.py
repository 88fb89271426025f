"""The verbs, in the order in which help shows them. One module each, loaded only when named."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast


class VerbModule(Protocol):
    """What a verb's module holds. Importing it, and `add_arguments`, must work with no extra installed."""

    HELP: str
    """One line, at most 70 characters: what the verb is for."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the verb's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; returns the exit code. Heavy imports belong in here."""
        ...


@dataclass(frozen=True)
class Verb:
    """A word after `kvscope`, and the module that answers to it."""

    name: str
    module: str
    extra: str = ""
    """What brings all that it needs, where that is more than what is found missing first would say."""


VERBS: tuple[Verb, ...] = (
    Verb("lab", "kvscope.cli.lab", "lab"),
    Verb("patch", "kvscope.cli.patch"),
    Verb("doctor", "kvscope.cli.doctor"),
    Verb("top", "kvscope.cli.top", "top"),
    Verb("record", "kvscope.cli.record"),
    Verb("dump", "kvscope.cli.dump"),
    Verb("export", "kvscope.cli.export", "export"),
    Verb("share", "kvscope.cli.share"),
    Verb("serve", "kvscope.cli.serve", "serve"),
    Verb("agent", "kvscope.cli.agent"),
    Verb("dashboards", "kvscope.cli.dashboards", "dashboards"),
    Verb("annotate", "kvscope.cli.annotate", "dashboards"),
    Verb("report", "kvscope.cli.report"),
    Verb("request", "kvscope.cli.request"),
    Verb("diagnose", "kvscope.cli.diagnose"),
    Verb("compare", "kvscope.cli.compare"),
    Verb("whatif", "kvscope.cli.whatif"),
    Verb("profile", "kvscope.cli.profile", "profile"),
    Verb("on", "kvscope.cli.on"),
    Verb("off", "kvscope.cli.off"),
    Verb("rings", "kvscope.cli.rings"),
    Verb("overhead", "kvscope.cli.overhead"),
)


def load(verb: Verb) -> VerbModule:
    """Import the verb's module."""
    return cast(VerbModule, import_module(verb.module))
