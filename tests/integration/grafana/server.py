"""A server that keeps to what contract.json says of Grafana's HTTP API. It is no Grafana."""

from __future__ import annotations

import json
import re
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

CONTRACT = json.loads(Path(__file__).with_name("contract.json").read_text())
ENDPOINTS = CONTRACT["endpoints"]
TOKEN = "glsa_right"
Answer = tuple[int, Any]


class Kept:
    """What the server holds, and what it does not allow."""

    def __init__(self) -> None:
        self.version = "12.2.0"
        self.sources: dict[str, dict[str, Any]] = {}
        self.folders: dict[str, dict[str, Any]] = {}
        self.dashboards: dict[str, dict[str, Any]] = {}
        self.rules: dict[str, dict[str, Any]] = {}
        self.marks: list[dict[str, Any]] = []
        self.denied: set[str] = set()
        """permissions that the token has not"""
        self.down = False
        self.busy = False
        """whether somebody else saves every dashboard between a look and a write"""
        self.asked: list[tuple[str, str]] = []
        """method and path of each request"""

    @property
    def writes(self) -> int:
        """Requests that change something."""
        return sum(method != "GET" for method, _ in self.asked)

    def settings(self) -> Answer:
        return 200, {"buildInfo": {"version": self.version, "commit": "abc", "edition": "Open Source"}}

    def get_source(self, uid: str) -> Answer:
        return _there(self.sources, uid)

    def add_source(self, body: dict[str, Any]) -> Answer:
        if any(each["name"] == body["name"] for each in self.sources.values()):
            return 409, "taken"
        defaults = {"id": len(self.sources) + 1, "orgId": 1, "secureJsonFields": {}, "version": 1, "readOnly": False}
        made = self.sources[body.get("uid", "made-up")] = {**defaults, "jsonData": {}, **body}
        return 200, {"datasource": made, "id": made["id"], "message": "Datasource added", "name": made["name"]}

    def put_source(self, uid: str, body: dict[str, Any]) -> Answer:
        made = self.sources[uid] = {**self.sources[uid], **body, "version": self.sources[uid]["version"] + 1}
        return 200, {"datasource": made, "id": made["id"], "message": "Datasource updated", "name": made["name"]}

    def get_folder(self, uid: str) -> Answer:
        return _there(self.folders, uid)

    def add_folder(self, body: dict[str, Any]) -> Answer:
        flags = dict.fromkeys(("hasAcl", "canSave", "canEdit", "canAdmin"), True)
        people = dict.fromkeys(("createdBy", "created", "updatedBy", "updated"), "somebody")
        made = {"id": 7, "url": "/dashboards/f/x", "version": 1, **flags, **people, **body}
        self.folders[made["uid"]] = made
        return 200, made

    def put_folder(self, uid: str, body: dict[str, Any]) -> Answer:
        if body["version"] != self.folders[uid]["version"]:
            return 412, "stale"
        self.folders[uid].update(title=body["title"], version=body["version"] + 1)
        return 200, self.folders[uid]

    def get_dashboard(self, uid: str) -> Answer:
        return _there(self.dashboards, uid)

    def put_dashboard(self, body: dict[str, Any]) -> Answer:
        board = body["dashboard"]
        before = self.dashboards.get(board["uid"])
        if body.get("folderUid") not in self.folders:
            return 400, "no_folder"
        if before is not None and self.busy:
            before["dashboard"]["version"] += 1
        if before is not None and not body.get("overwrite") and board.get("version") != before["dashboard"]["version"]:
            return 412, "stale"
        version = before["dashboard"]["version"] + 1 if before else 1
        kept = {**board, "id": len(self.dashboards) + 1, "version": version}
        self.dashboards[board["uid"]] = {
            "dashboard": kept,
            "meta": {"folderUid": body["folderUid"], "provisioned": False},
        }
        told = {
            "id": kept["id"],
            "uid": board["uid"],
            "url": "/d/x",
            "status": "success",
            "version": version,
            "slug": "x",
        }
        return 200, told

    def get_rules(self, folder: str, group: str) -> Answer:
        return _there(self.rules, f"{folder}/{group}")

    def put_rules(self, folder: str, group: str, body: dict[str, Any]) -> Answer:
        needed = set(_endpoint("put_rules")["rule"])
        if not all(needed <= rule.keys() for rule in body["rules"]) or folder not in self.folders:
            return 400, "bad"
        rules = [{**rule, "id": number, "orgID": 1, "provenance": "api"} for number, rule in enumerate(body["rules"])]
        self.rules[f"{folder}/{group}"] = {**body, "rules": rules}
        return 200, self.rules[f"{folder}/{group}"]

    def find_marks(self, query: dict[str, list[str]]) -> Answer:
        begin, end = int(query["from"][0]), int(query["to"][0])
        within = [each for each in self.marks if begin <= each["timeEnd"] and each["time"] <= end]
        return 200, [each for each in within if set(query["tags"]) <= set(each["tags"])]

    def add_mark(self, body: dict[str, Any]) -> Answer:
        self.marks.append({"id": len(self.marks) + 1, "timeEnd": body["time"], **body})
        return 200, {"message": "Annotation added", "id": len(self.marks)}


def _there(kept: dict[str, dict[str, Any]], key: str) -> Answer:
    return (200, kept[key]) if key in kept else (404, "missing")


def _endpoint(name: str) -> dict[str, Any]:
    return next(dict(each) for each in ENDPOINTS if each["name"] == name)


def _matched(method: str, path: str) -> tuple[dict[str, Any], dict[str, str]] | None:
    for each in ENDPOINTS:
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", each["path"])
        if each["method"] == method and (found := re.fullmatch(pattern, path)):
            return each, {name: unquote(value) for name, value in found.groupdict().items()}
    return None


class _Handler(BaseHTTPRequestHandler):
    server: Standing

    def do_GET(self) -> None:
        path = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        kept = self.server.kept
        kept.asked.append((self.command, path.path))
        status, told = self._answered(path.path, parse_qs(path.query), body)
        data = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_PUT = do_GET

    def _answered(self, path: str, query: dict[str, list[str]], body: Any) -> Answer:
        kept, found = self.server.kept, _matched(self.command, path)
        if kept.down:
            return _error("down")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _error("unauthorized")
        if found is None:
            return _error("nowhere")
        endpoint, named = found
        if endpoint["permission"] in kept.denied:
            return _error("forbidden", endpoint["permission"])
        if body is not None and not set(endpoint.get("needs", ())) <= body.keys():
            return _error("bad")
        given = ({"query": query} if endpoint["name"] == "find_marks" else {}) | (
            {"body": body} if body is not None else {}
        )
        status, told = getattr(kept, endpoint["name"])(**named, **given)
        if isinstance(told, str):
            recorded = endpoint.get(told) or CONTRACT["errors"][told]
            return recorded["status"], recorded["body"]
        assert status == endpoint["answer"]["status"]
        assert endpoint["answer"]["fields"] is None or set(endpoint["answer"]["fields"]) <= told.keys(), told
        return status, told

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def _error(name: str, permission: str = "") -> Answer:
    error = CONTRACT["errors"][name]
    return error["status"], json.loads(json.dumps(error["body"]).replace("{permission}", permission))


class Standing(ThreadingHTTPServer):
    """The server, while it is entered."""

    daemon_threads = True

    def __init__(self, cert: Path | None = None, key: Path | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.kept, self._scheme = Kept(), "http"
        self.faults: list[BaseException | None] = []
        if cert is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(cert, key)
            self.socket = context.wrap_socket(self.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        """Its address."""
        return f"{self._scheme}://localhost:{self.server_address[1]}"

    def __enter__(self) -> Standing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not like the certificate goes away; anything else is a fault of ours."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self.faults.append(error)
