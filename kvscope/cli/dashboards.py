"""`kvscope dashboards`: dashboards and alert rules, as files or brought to a Grafana."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kvscope.cli.grafana_arguments import add_grafana, grafana
from kvscope.cli.outcome import OK, say
from kvscope.model.counting import count

if TYPE_CHECKING:
    from kvscope.dashboards.server.pushing import Wishes

HELP = "bring dashboards and alert rules to Grafana, or write them as files"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`push` and `render`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    text = "create or update data source, folder, dashboards and alert rules on a server"
    push = verbs.add_parser("push", help=text, description=text)
    push.set_defaults(call=_push)
    add_grafana(push)
    push.add_argument("--dry-run", action="store_true", help="write nothing; say what would change, line by line")
    push.add_argument("--folder", default="kvscope", metavar="TITLE", help="title of the folder (default: %(default)s)")
    source = push.add_mutually_exclusive_group()
    source.add_argument("--prometheus", metavar="URL", help="make a data source kvscope of this Prometheus")
    source.add_argument("--source", metavar="UID", help="the data source that alert rules are to ask")
    push.add_argument("--trace-url", metavar="URL", help="where a request's trace is; ${__value.raw} stands for its id")
    push.add_argument("--no-alerts", action="store_true", help="leave the alert rules out: Prometheus may have them")
    push.add_argument("--runbooks", metavar="URL", help="where docs/runbooks is to be found")
    text = "write dashboards, provisioning, compose file and Kubernetes manifests"
    render = verbs.add_parser("render", help=text, description=text)
    render.set_defaults(call=_render)
    render.add_argument("folder", type=Path, metavar="DIR", help="where to; files of the same names are replaced")


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 when all of it was done."""
    code: int = args.call(args)
    return code


def _render(args: argparse.Namespace) -> int:
    from kvscope.dashboards.rendering import write

    written = write(args.folder)
    for path in written:
        print(path)
    return OK


def _push(args: argparse.Namespace) -> int:
    from kvscope.dashboards.server.changes import Verdict
    from kvscope.dashboards.server.pushing import changes

    verdicts = []
    with grafana(args) as server:
        for change in changes(server, _wishes(args)):
            verdicts.append(change.verdict if args.dry_run else change.apply())
            print(f"{verdicts[-1]:9}  {change.what}")
            if args.dry_run and (diff := change.diff()):
                print(diff)
    written = count(sum(verdict is not Verdict.UNCHANGED for verdict in verdicts), "thing")
    say(f"kvscope: {written} {'would be' if args.dry_run else ''} written to {server.url}".replace("  ", " "))
    if not args.no_alerts and args.prometheus is None and args.source is None:
        say("kvscope: no alert rules: name what they are to ask with --prometheus URL or --source UID")
    return OK


def _wishes(args: argparse.Namespace) -> Wishes:
    from kvscope.alerts.rendering import RUNBOOKS
    from kvscope.alerts.table import GROUPS
    from kvscope.dashboards.server.pushing import Wishes

    alerts = () if args.no_alerts else GROUPS
    runbooks = RUNBOOKS if args.runbooks is None else args.runbooks
    return Wishes(args.folder, args.prometheus, args.trace_url, args.source, alerts, runbooks)
