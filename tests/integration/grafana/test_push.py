"""`kvscope dashboards push` against the recorded contract of Grafana's HTTP API."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kvscope.alerts.table import ALERTS
from kvscope.dashboards.boards import BOARDS
from kvscope.dashboards.document import document

from .conftest import Run
from .server import Standing

PUSH = ("dashboards", "push")
ALL = (*PUSH, "--prometheus", "http://prometheus:9090", "--trace-url", "https://traces/${__value.raw}")


def test_a_first_push_brings_everything(run: Run, grafana: Standing) -> None:
    said = run(*ALL)
    assert said.code == 0, said.err
    assert grafana.kept.dashboards.keys() == {board.uid for board in BOARDS}
    for board in BOARDS:
        kept = grafana.kept.dashboards[board.uid]
        assert kept["meta"]["folderUid"] == "kvscope"
        assert {**kept["dashboard"], "id": 0, "version": 0} == {**document(board), "id": 0, "version": 0}
    assert grafana.kept.folders["kvscope"]["title"] == "kvscope"
    source = grafana.kept.sources["kvscope"]
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    (link,) = source["jsonData"]["exemplarTraceIdDestinations"]
    assert (link["name"], link["url"]) == ("request", "https://traces/${__value.raw}")
    rules = [rule for group in grafana.kept.rules.values() for rule in group["rules"]]
    assert len(rules) == len(ALERTS) == len({rule["uid"] for rule in rules}) == len({rule["title"] for rule in rules})
    assert all(line.startswith("created") for line in said.out.splitlines())


def test_a_second_push_changes_nothing(run: Run, grafana: Standing) -> None:
    run(*ALL)
    writes = grafana.kept.writes
    said = run(*ALL)
    assert said.code == 0
    assert grafana.kept.writes == writes
    assert all(line.startswith("unchanged") for line in said.out.splitlines())
    assert "0 things written" in said.err


def test_what_somebody_changed_is_put_right_and_the_rest_left_alone(run: Run, grafana: Standing) -> None:
    run(*ALL)
    grafana.kept.dashboards["kvscope-ttft"]["dashboard"]["panels"][1]["title"] = "mine"
    grafana.kept.dashboards["kvscope-trust"]["meta"]["folderUid"] = "elsewhere"
    grafana.kept.folders["kvscope"]["title"] = "renamed"
    grafana.kept.sources["kvscope"]["url"] = "http://old"
    next(iter(grafana.kept.rules.values()))["rules"][0]["for"] = "59m"
    writes = grafana.kept.writes
    said = run(*ALL)
    assert said.code == 0
    assert len(re.findall("^updated", said.out, re.M)) == grafana.kept.writes - writes == 5
    assert grafana.kept.dashboards["kvscope-ttft"]["dashboard"]["panels"][1]["title"] == BOARDS[0].panels[0].title
    assert "unchanged" in run(*ALL).out
    assert not re.search("^updated", run(*ALL).out, re.M)


def test_a_dry_run_writes_nothing_and_shows_each_line(run: Run, grafana: Standing) -> None:
    assert run(*ALL, "--dry-run").code == 0
    assert grafana.kept.writes == 0
    run(*ALL)
    board = grafana.kept.dashboards["kvscope-handoff"]["dashboard"]
    board["refresh"], board["somebody's"] = "5m", "field of the server's own"
    writes = grafana.kept.writes
    said = run(*ALL, "--dry-run")
    assert grafana.kept.writes == writes
    changed = [line for line in said.out.splitlines() if re.match(r"[-+](?![-+])", line)]
    assert changed == ['- "refresh": "5m",', '+ "refresh": "30s",']
    assert "--- dashboard kvscope: handoff, there" in said.out
    assert "1 thing would be written" in said.err


def test_without_a_data_source_it_says_why_there_are_no_rules(run: Run, grafana: Standing) -> None:
    said = run(*PUSH)
    assert said.code == 0
    assert not grafana.kept.sources
    assert not grafana.kept.rules
    assert "no alert rules" in said.err
    assert "no alert rules" not in run(*PUSH, "--no-alerts").err
    run(*PUSH, "--source", "theirs")
    asked = {
        query["datasourceUid"]
        for group in grafana.kept.rules.values()
        for rule in group["rules"]
        for query in rule["data"]
    }
    assert asked == {"theirs", "__expr__"}


@pytest.mark.parametrize(
    ("permission", "what"),
    [
        ("datasources:read", "data source kvscope"), ("datasources:create", "data source kvscope"),
        ("folders:create", "folder kvscope"), ("dashboards:read", "dashboard kvscope: where does TTFT go"),
        ("dashboards:write", "dashboard kvscope: where does TTFT go"),
        ("alert.provisioning:write", "alert rules kvscope-requests"),
    ],
)  # fmt: skip
def test_a_missing_permission_is_named(run: Run, grafana: Standing, permission: str, what: str) -> None:
    grafana.kept.denied = {permission}
    said = run(*ALL)
    assert said.code == 2
    sentence = f"the token may not do that ({what}): it needs {permission}; give its account that, or the role Admin"
    assert said.err == f"kvscope: {sentence}\n"


def test_a_wrong_token_is_said(run: Run, grafana: Standing) -> None:
    said = run(*ALL, token="glsa_wrong")
    assert said.code == 2
    assert f"{grafana.url} does not take the token (Invalid API key)" in said.err
    assert grafana.kept.writes == 0
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(("version", "code"), [("9.5.21", 2), ("10.0.0", 0), ("12.2.0-pre", 0), ("", 0)])
def test_an_old_grafana_is_refused_by_its_version(run: Run, grafana: Standing, version: str, code: int) -> None:
    grafana.kept.version = version
    said = run(*ALL)
    assert said.code == code
    if code:
        assert said.err == f"kvscope: {grafana.url} is Grafana 9.5.21; the dashboards need 10.0 or newer\n"
        assert grafana.kept.writes == 0


def test_what_is_saved_meanwhile_is_not_written_over(run: Run, grafana: Standing) -> None:
    run(*ALL)
    grafana.kept.dashboards["kvscope-ttft"]["dashboard"]["title"] = "mine"
    grafana.kept.busy = True
    said = run(*ALL)
    assert said.code == 2
    assert "dashboard kvscope: where does TTFT go was changed on" in said.err
    assert "push again" in said.err
    assert grafana.kept.dashboards["kvscope-ttft"]["dashboard"]["title"] == "mine"


def test_what_a_file_provisions_is_left_to_the_file(run: Run, grafana: Standing) -> None:
    run(*ALL)
    grafana.kept.dashboards["kvscope-ttft"]["dashboard"]["title"] = "mine"
    grafana.kept.dashboards["kvscope-ttft"]["meta"]["provisioned"] = True
    assert "comes from a provisioning file: change it there" in run(*ALL).err
    grafana.kept.sources["kvscope"].update(readOnly=True, url="http://other")
    said = run(*ALL)
    assert said.code == 2
    assert "data source kvscope on" in said.err


def test_a_server_that_fails_is_said(run: Run, grafana: Standing) -> None:
    grafana.kept.down = True
    said = run(*ALL)
    assert said.code == 2
    assert said.err == f"kvscope: {grafana.url} failed (502) at the question for its version: Bad gateway\n"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed")
def test_promtool_takes_the_queries_of_the_rules(run: Run, grafana: Standing, tmp_path: Path) -> None:
    run(*ALL)
    rules = [{"alert": rule["title"], "expr": rule["data"][0]["model"]["expr"]}
             for group in grafana.kept.rules.values() for rule in group["rules"]]  # fmt: skip
    assert not any(":kvscope" in rule["expr"] for rule in rules), "Grafana has nobody who records that"
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "all", "rules": rules}]}))
    checked = subprocess.run(["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(ALERTS)} rules found" in checked.stdout
