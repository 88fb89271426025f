"""The table of verbs and the modules in `kvscope/cli` agree."""

from __future__ import annotations

import argparse
from importlib import import_module
from pkgutil import iter_modules

import pytest

import kvscope.cli
from kvscope.cli import verbs


def test_every_module_that_is_a_verb_is_in_the_table() -> None:
    names = [f"kvscope.cli.{module.name}" for module in iter_modules(kvscope.cli.__path__)]
    can_run = {name for name in names if hasattr(import_module(name), "add_arguments")}
    assert can_run == {verb.module for verb in verbs.VERBS}


@pytest.mark.parametrize("verb", verbs.VERBS, ids=lambda verb: verb.name)
def test_a_verb_s_module_holds_what_the_command_line_needs(verb: verbs.Verb) -> None:
    module = verbs.load(verb)
    assert module.HELP
    assert len(module.HELP) <= 70
    assert "\n" not in module.HELP
    module.add_arguments(argparse.ArgumentParser())
    assert callable(module.run)
