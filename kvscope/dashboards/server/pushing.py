"""Bringing the data source, the folder, the dashboards and the alert rules to a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kvscope.alerts.rendering import RUNBOOKS
from kvscope.alerts.rule import Group
from kvscope.dashboards.boards import BOARDS
from kvscope.dashboards.document import document
from kvscope.dashboards.rendering import OFTEN
from kvscope.dashboards.server.changes import Change
from kvscope.dashboards.server.connection import Grafana
from kvscope.dashboards.server.rules import rule_groups
from kvscope.model.errors import InputError

UID = "kvscope"
"""Of the folder and of the data source."""
MESSAGE = "kvscope dashboards push"
_OWN = ("id", "version", "schemaVersion")
"""Fields of a dashboard that the server decides on, or brings up to date itself."""


@dataclass(frozen=True)
class Wishes:
    """What is to be on the server."""

    folder: str = "kvscope"
    """title of the folder"""
    prometheus: str | None = None
    """address of the Prometheus that a data source is wanted for"""
    traces: str | None = None
    """address of a request's trace, with ${__value.raw} in the place of its id"""
    source: str | None = None
    """uid of the data source that alert rules ask; with an address of Prometheus, the one that is made of it"""
    alerts: Sequence[Group] = ()
    """rules to push; they need a data source"""
    runbooks: str = RUNBOOKS
    """where their runbooks are"""


def changes(server: Grafana, wishes: Wishes) -> Iterator[Change]:
    """What there is to do, one after the other: each looks at the server when its turn comes."""
    if wishes.prometheus is not None:
        yield _source(server, wishes.prometheus, wishes.traces)
    yield _folder(server, wishes.folder)
    for board in BOARDS:
        yield _dashboard(server, document(board))
    source = UID if wishes.prometheus is not None else wishes.source
    if source is not None:
        for wanted in rule_groups(wishes.alerts, UID, source, wishes.runbooks):
            yield _rule_group(server, wanted)


def _source(server: Grafana, url: str, traces: str | None) -> Change:
    link = {"name": "request", "url": traces, "urlDisplayLabel": "the request's trace"}
    known = [link] if traces else []
    wanted: dict[str, Any] = {
        "name": "kvscope", "uid": UID, "type": "prometheus", "access": "proxy", "url": url,
        "jsonData": {"httpMethod": "POST", "timeInterval": OFTEN, "exemplarTraceIdDestinations": known},
    }  # fmt: skip
    what, sources = "data source kvscope", server.api.datasource
    there = server.found(what, sources.get_datasource_by_uid, UID)

    def write() -> None:
        if there is None:
            server.asked(what, sources.create_datasource, wanted)
        elif there.get("readOnly"):
            raise InputError(f"{what} on {server.url} comes from a provisioning file: change it there")
        else:
            server.asked(what, sources.update_datasource_by_uid, UID, {**there, **wanted})

    return Change(what, wanted, there, write)


def _folder(server: Grafana, title: str) -> Change:
    what, wanted, folders = f"folder {title}", {"uid": UID, "title": title}, server.api.folder
    there = server.found(what, folders.get_folder, UID)

    def write() -> None:
        if there is None:
            server.asked(what, folders.create_folder, title, uid=UID)
        else:
            server.asked(what, folders.update_folder, UID, title=title, version=there.get("version"))

    return Change(what, wanted, there, write)


def _dashboard(server: Grafana, board: dict[str, Any]) -> Change:
    what, boards = f"dashboard {board['title']}", server.api.dashboard
    found = server.found(what, boards.get_dashboard, board["uid"])
    there = None if found is None else {**found["dashboard"], "folderUid": found["meta"].get("folderUid", "")}
    wanted = {name: value for name, value in board.items() if name not in _OWN} | {"folderUid": UID}

    def write() -> None:
        if found is not None and found["meta"].get("provisioned"):
            raise InputError(f"{what} on {server.url} comes from a provisioning file: change it there")
        # With the version that was compared: what somebody saves meanwhile is not written over.
        version = {} if there is None else {"version": there.get("version"), "id": there.get("id")}
        message = {"folderUid": UID, "message": MESSAGE, "overwrite": False, "dashboard": {**board, **version}}
        server.asked(what, boards.update_dashboard, message)

    return Change(what, wanted, there, write)


def _rule_group(server: Grafana, wanted: dict[str, Any]) -> Change:
    name, rules = str(wanted["title"]), server.api.alertingprovisioning
    what = f"alert rules {name}"
    there = server.found(what, rules.get_rule_group, UID, name)

    def write() -> None:
        server.asked(what, rules.update_rule_group, UID, name, wanted)

    return Change(what, wanted, there, write)
