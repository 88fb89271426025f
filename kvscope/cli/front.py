"""From a command line to a verb's `run`: only the module of the verb that was named is loaded."""

from __future__ import annotations

import argparse
import difflib
from typing import NoReturn

from kvscope.cli import verbs
from kvscope.cli.outcome import missing_extra, not_installed
from kvscope.model.errors import InputError

USAGE = """\
kvscope: where the time to first token goes. Usage: kvscope VERB [OPTIONS], kvscope VERB --help
{verbs}
Start with `kvscope lab run` (a pair here), or beside your engines: `kvscope doctor`, `kvscope top`.
"""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, as every other error here does, instead of printing the usage."""

    def error(self, message: str) -> NoReturn:
        """Raise InputError with argparse's finding and where to read on."""
        raise InputError(f"{message} (see `{self.prog} --help`)")


def run(words: list[str]) -> int:
    """Run the command line `words`; returns the verb's exit code. InputError: no such verb, or bad arguments."""
    first, rest = (words[0], words[1:]) if words else ("--help", [])
    if first in ("-h", "--help", "help"):
        print(overview(), end="")
        return 0
    if first == "--version":
        print(f"kvscope {version()}")
        return 0
    return run_verb(find(first), rest)


def overview() -> str:
    """The one-screen help."""
    found = verbs.VERBS
    width = max((len(verb.name) for verb in found), default=0)
    lines = (f"  {verb.name:<{width}}  {verbs.load(verb).HELP}" for verb in found)
    return USAGE.format(verbs="\n".join(lines))


def find(name: str) -> verbs.Verb:
    """The verb called `name`. InputError names the nearest one."""
    found = {verb.name: verb for verb in verbs.VERBS}
    if name in found:
        return found[name]
    near = difflib.get_close_matches(name, found, n=1)
    hint = f"did you mean `kvscope {near[0]}`?" if near else "`kvscope --help` lists the verbs."
    raise InputError(f"there is no verb {name!r}; {hint}")


def run_verb(verb: verbs.Verb, words: list[str]) -> int:
    """Parse `words` as the verb's arguments and run it."""
    module = verbs.load(verb)
    parser = Parser(prog=f"kvscope {verb.name}", description=module.HELP)
    module.add_arguments(parser)
    try:
        return module.run(parser.parse_args(words))
    except ModuleNotFoundError as error:
        if verb.extra and missing_extra(error):
            raise InputError(not_installed(error, verb.extra)) from error
        raise


def version() -> str:
    """The version installed."""
    # Imported here: it costs a quarter of the time that a verb's --help may take.
    from importlib.metadata import version as installed

    return installed("kvscope")
