"""`kvscope lab`: a real prefill/decode pair on this machine, with a router and a load in front."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from kvscope.cli import front, lab_incident, lab_sweep
from kvscope.cli.endings import ended_by_signals
from kvscope.cli.outcome import say, say_lines
from kvscope.model.counting import count
from kvscope.model.invocation import command

if TYPE_CHECKING:
    from kvscope.lab.run import RunOptions, RunResult

HELP = "run a real vLLM prefill/decode pair here, with a router and a load"
FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs of `kvscope lab`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="run|incident|sweep|stop|setup|files")
    run = verbs.add_parser("run", help="start a pair, send a load, report where the time went")
    _add_load(run.add_argument_group("load"))
    _add_pair(run.add_argument_group("pair"))
    run.add_argument("-o", "--output", type=Path, metavar="DIR", help="for recording, client's view and logs")
    run.add_argument("--keep", action="store_true", help="leave pair and router up afterwards")
    incident = verbs.add_parser("incident", help="make known incidents for real, and record them; alone: list them")
    lab_incident.describe(incident)
    sweep = verbs.add_parser("sweep", help="benchmark push and pull by length and rate: one page with pictures")
    lab_sweep.describe(sweep)
    stop = verbs.add_parser("stop", help="end a pair that was kept")
    stop.add_argument("folder", type=Path, metavar="DIR", help="the output folder of its run")
    setup = verbs.add_parser("setup", help="make vLLM's environment, and nothing else")
    files = verbs.add_parser("files", help="fetch vLLM's Python files as released, to check or carry patches")
    files.add_argument(
        "releases", nargs="*", metavar="RELEASE", help="default: the supported ones that cannot run here"
    )
    files.add_argument("--plain", action="store_true", help="no live display, no colour")
    for verb in (run, incident, sweep, setup):
        verb.add_argument("--python", type=Path, metavar="PATH", help="an interpreter that has vLLM and NIXL already")
        verb.add_argument("--plain", action="store_true", help="no live display, no colour")
    run.set_defaults(call=_run)
    incident.set_defaults(call=lab_incident.run)
    sweep.set_defaults(call=lab_sweep.run)
    stop.set_defaults(call=_stop)
    setup.set_defaults(call=_setup)
    files.set_defaults(call=_files)


def _add_load(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--requests", type=int, default=30, metavar="N")
    group.add_argument("--rate", type=float, default=2.0, metavar="R", help="requests per second (default: 2)")
    group.add_argument("--arrivals", choices=("poisson", "fixed"), default="poisson")
    group.add_argument(
        "--input-tokens", default="1000", metavar="MIX", help="prompt lengths, weighted: 500,1000x3,2000"
    )
    group.add_argument("--output-tokens", type=int, default=16, metavar="N")
    group.add_argument("--warm-up", type=int, default=3, metavar="N", help="requests sent before and not counted")
    group.add_argument("--seed", type=int, default=0)


def _add_pair(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--connector", choices=("push", "pull"), default="push")
    group.add_argument("--dispatch", choices=("early", "sequential"), help="default: early for push")
    group.add_argument("--hold", type=float, default=0.0, metavar="MS", help="waited by the router between the legs")
    group.add_argument("--router", choices=("kvscope", "vllm-router"), default="kvscope")
    group.add_argument("--decodes", type=int, default=1, metavar="N", help="decode engines")
    group.add_argument("--stock", action="store_true", help="vLLM without kvscope: only the client's view")
    group.add_argument("--blocks", type=int, metavar="N", help="KV cache size of each engine")
    group.add_argument("--lease", type=int, metavar="S", help="how long prefill keeps blocks for decode")
    group.add_argument("--extra-config", type=_json_object, default={}, metavar="JSON", help="for the KV connector")
    group.add_argument("--vllm-arg", action="append", default=[], metavar="ARG", help="for both engines; repeatable")
    group.add_argument("--ucx-tls", default="tcp,self,sm", metavar="LIST")


def _json_object(text: str) -> dict[str, object]:
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise argparse.ArgumentTypeError(f'{text!r} is not a JSON object such as {{"num_threads": 1}}')
    return told


def run(args: argparse.Namespace) -> int:
    """Exit code: 0, or 1 when an engine did not come up or requests failed."""
    from kvscope.lab.errors import LabError

    try:
        with ended_by_signals():
            code: int = args.call(args)
            return code
    except LabError as error:
        say_lines(f"kvscope: {error}")
        return FAILED


def _run(args: argparse.Namespace) -> int:
    from datetime import datetime

    from kvscope.lab import progress
    from kvscope.lab import run as lab

    folder = args.output or lab.new_folder(datetime.now())
    with progress.shown(args.plain) as shown:
        result = lab.run(_options(args), folder, shown)
    say(lab.seen_by_client(result.measured))
    for fault in result.faults:
        say(f"not read: {fault}")
    if result.recording:
        _report(result.recording)
    _tell_next(result, args.keep)
    return _verdict(result)


def _options(args: argparse.Namespace) -> RunOptions:
    from kvscope.lab.load import LoadOptions, mix
    from kvscope.lab.pair import PairOptions
    from kvscope.lab.run import RunOptions

    load = LoadOptions(
        requests=args.requests,
        rate=args.rate,
        arrivals=args.arrivals,
        input_tokens=mix(args.input_tokens),
        output_tokens=args.output_tokens,
        warm_up=args.warm_up,
        seed=args.seed,
    )
    pair = PairOptions(
        connector=args.connector,
        decodes=args.decodes,
        stock=args.stock,
        python=args.python,
        blocks=args.blocks,
        lease_s=args.lease,
        extra_config=args.extra_config,
        vllm_args=tuple(args.vllm_arg),
        ucx_tls=args.ucx_tls,
    )
    dispatch = args.dispatch or ("early" if args.connector == "push" else "sequential")
    return RunOptions(pair, load, args.router, dispatch, args.hold, args.keep)


def _report(path: Path) -> None:
    """Print the report of the load itself: warm-up meets engines that have never met."""
    from kvscope.lab.load import WARM_UP

    front.run(["report", str(path), "--without", WARM_UP])


def _tell_next(result: RunResult, kept: bool) -> None:
    from kvscope.lab.load import WARM_UP

    say("")
    if result.recording and result.measured:
        recording = shlex.quote(str(result.recording))
        say(f"again   {command()} report {recording} --without {WARM_UP}")
        say(f"one     {command()} request {result.measured[-1].request[:8]} {recording}")
    if kept:
        say(f"up      {result.url}/v1/completions, rings in {result.run_dir}")
        say(f"end it  {command()} lab stop {shlex.quote(str(result.folder))}")


def _verdict(result: RunResult) -> int:
    if not result.failed:
        return 0
    first = result.failed[0]
    say(
        f"kvscope: {len(result.failed)} of {count(len(result.records), 'request')} failed, the first with:"
        f" {first.error or f'status {first.status}'} (logs in {result.folder})"
    )
    return FAILED


def _stop(args: argparse.Namespace) -> int:
    from kvscope.lab import pair

    ended = pair.stop(args.folder)
    say(f"stopped: {', '.join(ended) or 'nothing was running any more'}")
    return 0


def _setup(args: argparse.Namespace) -> int:
    from kvscope.lab import environment, progress

    with progress.shown(args.plain) as shown:
        found = environment.prepare(shown, args.python)
        shown.finish()
    print(f"{found.python}  vLLM {found.vllm}  NIXL {found.nixl}")
    return 0


def _files(args: argparse.Namespace) -> int:
    from kvscope.lab import progress, released

    with progress.shown(args.plain) as shown:
        for release in args.releases or released.others():
            folder = released.fetched(release, shown)
            shown.finish()
            print(folder)
    return 0
