"""`kvscope serve`: this host's rings for views elsewhere, and for Prometheus."""

from __future__ import annotations

import argparse
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from kvscope.cli.incidents_arguments import add_incidents, flight_of
from kvscope.cli.outcome import OK, missing_extra, not_installed, say
from kvscope.cli.positive import above_zero
from kvscope.cli.record import stopping
from kvscope.cli.sizes import size
from kvscope.cli.sources_arguments import add_run_dir
from kvscope.live.wire import METRICS, PORT
from kvscope.model.errors import InputError

if TYPE_CHECKING:
    from kvscope.incidents.flight import Flight
    from kvscope.live.access import Access
    from kvscope.live.serving import Server, Taking
    from kvscope.metrics.reading import Reading
    from kvscope.metrics.service import Service

HELP = "this host's engines for Prometheus, and for `kvscope top` elsewhere"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to listen, to whom, and what to count."""
    parser.add_argument(
        "--port", type=int, default=PORT, help="where to listen; 0: any free one (default: %(default)s)"
    )
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="not loopback: TLS and a token or password are needed"
    )
    guard = parser.add_argument_group("guarding")
    guard.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate, with its chain, in PEM")
    guard.add_argument("--tls-key", type=Path, metavar="FILE", help="its key")
    guard.add_argument("--token-file", type=Path, metavar="FILE", help="holds the token that a client must show")
    guard.add_argument("--password-file", type=Path, metavar="FILE", help="holds user:password, for basic auth")
    parser.add_argument("--slo", metavar="LIMITS", help="objectives that metrics are judged by: ttft=800ms,tpot=30ms")
    parser.add_argument("--no-metrics", action="store_true", help=f"read nothing for {METRICS}")
    _add_taking(parser)
    add_run_dir(parser)
    add_incidents(parser)


def _add_taking(parser: argparse.ArgumentParser) -> None:
    taking = parser.add_argument_group("many hosts")
    taking.add_argument("--taken", type=Path, metavar="DIR", help="serve what another one takes there, e.g. to views")
    taking.add_argument(
        "--take", type=Path, metavar="DIR", help="keep there what `kvscope agent` sends, and serve that"
    )
    taking.add_argument(
        "--take-quota", type=above_zero(size), metavar="BYTES", help="what that may take (all there is)"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop. Prints its address."""
    from kvscope.live.access import access_of
    from kvscope.live.serving import Server
    from kvscope.probe.reader import RingError, list_rings

    if not 0 <= args.port <= 65535:
        raise InputError(f"--port {args.port}: choose between 0 and 65535")
    access = access_of(args.tls_cert, args.tls_key, args.token_file, args.password_file)
    try:
        found = list_rings(args.run_dir, [])
    except RingError as error:
        raise InputError(str(error)) from None
    flight = flight_of(args)
    if args.taken and (args.take or not args.taken.is_dir()):
        raise InputError(
            f"--taken {args.taken}: name the folder of another `kvscope serve --take`, and take nothing here"
        )
    if (args.take or args.taken) and flight is not None:
        raise InputError(
            "--save-to keeps what this host's rings hold, and with --take they are not read; leave one away"
        )
    service = None if args.no_metrics else service_of(args, access, flight)
    _allow_many_files()
    with stopping(None) as stop, signalled(flight), ExitStack() as stack:
        taking = taken_of(args, stack)
        if flight is not None:
            stack.callback(flight.close)
        if service is not None:
            stack.enter_context(service)
        elif flight is not None:
            stack.enter_context(_reading_for(flight, args))
        server = Server(
            args.run_dir, args.host, args.port, metrics=service, access=access, flight=flight, taking=taking
        )
        stack.enter_context(server)
        print(server.url, flush=True)
        for warning in _warnings(args, access):
            say(f"kvscope: {warning}")
        say(f"kvscope: {_there(len(found), args)}; Ctrl-C ends it. {_ways_in(server)}")
        stop.wait()
    return OK


def _warnings(args: argparse.Namespace, access: Access) -> Iterator[str]:
    """What is used all the same, and should not be."""
    from kvscope.live.access import laid_open

    for path in laid_open(args.tls_key, args.token_file, args.password_file):
        yield f"every user of this host can read {path}; chmod o-r {path} keeps it to those who may"
    fault = access.valid.fault(datetime.now(UTC)) if access.valid else ""
    if fault:
        yield f"{args.tls_cert} {fault}: whoever checks certificates will not connect; renew it and start again"


@contextmanager
def signalled(flight: Flight | None) -> Iterator[None]:
    """SIGUSR1 saves an incident; where nothing is kept it is no reason to end."""

    def asked(number: int, frame: FrameType | None) -> None:
        if flight is not None:
            flight.signalled("SIGUSR1")
        else:
            say("kvscope: nothing is kept that SIGUSR1 could save: start `kvscope serve` with --save-to DIR")

    before = signal.signal(signal.SIGUSR1, asked)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def _reading_for(flight: Flight, args: argparse.Namespace) -> Reading:
    """What reads for it alone, where no metrics are made."""
    from kvscope.metrics.reading import HostRings, Reading

    flight.source = Reading(HostRings(args.run_dir, flight), observer=flight)
    return flight.source


def service_of(args: argparse.Namespace, access: Access, flight: Flight | None) -> Service | None:
    """What makes metrics; None, and it is said, where what that needs is not installed."""
    try:
        from kvscope.analysis.objectives import parse_objectives
        from kvscope.metrics.service import Service
    except ModuleNotFoundError as error:
        if missing_extra(error) is None or args.slo is not None:
            raise
        say(f"kvscope: no {METRICS}: {not_installed(error, 'serve')}")
        return None
    objectives = parse_objectives(args.slo) if args.slo is not None else None
    poll = None
    if folder := args.take or args.taken:
        from kvscope.live.taken import TakenFolder

        poll = TakenFolder(folder)
    return Service(args.run_dir, objectives, access.valid.end if access.valid else None, flight, poll)


def taken_of(args: argparse.Namespace, stack: ExitStack) -> Taking | None:
    """What takes batches of agents, until `stack` ends, or what another one took; None: neither."""
    if args.take is None and args.taken is None:
        return None
    from kvscope.agents.taking import Taker
    from kvscope.live.passing import Seen, Taken

    if args.taken:
        return Seen(args.taken)
    return Taken(stack.enter_context(Taker(args.take, args.take_quota, say)))


def _there(processes: int, args: argparse.Namespace) -> str:
    if args.take:
        return f"taking what agents send, kept in {args.take}"
    if args.taken:
        return f"serving what another one takes into {args.taken}"
    if processes:
        return f"serving the rings of {processes} processes in {args.run_dir}"
    return (
        f"no engine records in {args.run_dir} yet, what comes is served (`kvscope doctor` says what keeps one from it)"
    )


def _ways_in(server: Server) -> str:
    scrape = f"Prometheus: {server.url}{METRICS}" if server.metrics else ""
    if server.access.tls:
        return scrape
    port, host = server.server_address[1], socket.gethostname()
    way = f"ssh -N -L {port}:localhost:{port} {host}, and beside it kvscope top --connect localhost:{port}"
    return f"From elsewhere: {way}{f'. {scrape}' if scrape else ''}"


def _allow_many_files() -> None:
    """Each client opens every ring: let there be as many files as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
