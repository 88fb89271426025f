"""What is shipped to run an agent under: systemd's and Kubernetes's own validators take it, and so does the verb."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import validate

from kvscope.cli import agent, serve

from .tree import ROOT

DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "kvscope-agent.service"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
KUBERNETES = ("1.29", "1.37")
"""The first in which a sidecar is what `restartPolicy` makes one, and the newest that the schemas know."""


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in MANIFESTS:
        for document in yaml.safe_load_all(path.read_text()):
            yield f"{path.name}: {document['kind']}", document


def containers() -> Iterator[dict[str, Any]]:
    for _, document in documents():
        spec = document["spec"].get("template", {}).get("spec", {})
        yield from spec.get("initContainers", [])
        yield from spec.get("containers", [])


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize(
    ("name", "document"), list(documents()), ids=lambda each: each if isinstance(each, str) else ""
)
def test_kubernetes_takes_each_manifest(name: str, document: dict[str, Any], version: str) -> None:
    validate(document, version, strict=True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    command = re.search(r"^ExecStart=(\S+)", UNIT.read_text(), re.M)
    assert command is not None
    unit.write_text(UNIT.read_text().replace(command[1], "/bin/true"))  # which has to be there
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert UNIT.name not in done.stderr


def parsed(verb: Any, words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    verb.add_arguments(parser)
    return parser.parse_args(words)


def test_the_verbs_take_the_arguments_that_they_are_given() -> None:
    line = next(line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart="))
    assert parsed(agent, line.split()[2:]).spool == Path("%S/kvscope/spool")
    ours = [each for each in containers() if each.get("command", [""])[0] == "kvscope"]
    assert [each["command"][1] for each in ours] == ["serve", "agent", "agent"]
    for each in ours:
        found = parsed({"serve": serve, "agent": agent}[each["command"][1]], each["args"])
        assert found.token_file == Path("/etc/kvscope/token")


def test_what_a_container_mounts_is_a_volume_that_is_there() -> None:
    for name, document in documents():
        spec = document["spec"].get("template", {}).get("spec", {})
        claimed = [each["metadata"]["name"] for each in document["spec"].get("volumeClaimTemplates", [])]
        there = {each["name"] for each in spec.get("volumes", [])} | set(claimed)
        for each in (*spec.get("initContainers", []), *spec.get("containers", [])):
            assert {mount["name"] for mount in each.get("volumeMounts", [])} <= there, name
