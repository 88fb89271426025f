"""What happens to spans when a collector is slow, refuses, is gone, or wants to be shown something."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvscope.cli import main
from kvscope.export.otlp import delivery as delivery_module
from kvscope.export.otlp import sink as sink_module
from kvscope.lab.ports import free_ports

from .collector import Answer, Collector, partly

REAL = "docs/pictures/pull.kvs"
SPANS = 1200
"""That it has, at least."""


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for real, and batches are small."""
    monkeypatch.setattr(delivery_module, "FIRST_S", 0.001)
    monkeypatch.setattr(delivery_module, "LONGEST_S", 0.01)
    monkeypatch.setattr(delivery_module, "PATIENCE_S", 2.0)
    monkeypatch.setattr(delivery_module, "PATIENCE_AT_FIRST_S", 0.2)
    monkeypatch.setattr(sink_module, "SPANS", 200)
    monkeypatch.setattr(sink_module, "REQUESTS", 8)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Lines on standard error, once the test looks."""

    class Lines(list[str]):
        def __iter__(self) -> Iterator[str]:
            self.extend(line for line in capsys.readouterr().err.splitlines() if line)
            return super().__iter__()

    return Lines()


def export(url: str, *more: str) -> int:
    return main(["export", REAL, "--otlp", url, *more])


@pytest.mark.parametrize(
    "trouble",
    [Answer(429, headers={"Retry-After": "0"}), Answer(503), Answer(502), Answer(504), Answer(drop=True)],
    ids=["429", "503", "502", "504", "hung up"],
)
def test_what_may_pass_is_tried_again_and_nothing_is_lost(
    collector: Collector, trouble: Answer, said: list[str]
) -> None:
    collector.answers.extend([Answer(), trouble, trouble, Answer(), trouble])
    assert export(collector.url) == 0
    spans = [each.span.span_id for each in collector.spans]
    assert len(spans) == len(set(spans)) > SPANS
    assert len(collector.paths) == len(collector.requests) + 3
    lines = list(said)
    assert f"{len(spans):,} spans of 63 requests sent to" in lines[-1]
    assert sum("trying again for up to 2 s" in line for line in lines) == 2


def test_a_collector_that_asks_for_more_time_than_there_is_is_given_up(collector: Collector, said: list[str]) -> None:
    collector.answers.extend([Answer(), Answer(429, headers={"Retry-After": "3600"})])
    assert export(collector.url) == 2
    (line,) = said
    assert "answers 429 Too Many Requests, and it was tried for 2 s" in line
    assert f"; {len(collector.spans)} spans had arrived before" in line


@pytest.mark.parametrize(
    ("status", "body"), [(401, b""), (400, b"no \x00such\ntenant"), (404, b"not found" * 99), (302, b"")]
)
def test_a_refusal_is_one_sentence_with_what_had_arrived(
    collector: Collector, status: int, body: bytes, said: list[str]
) -> None:
    collector.answers.extend([Answer(), Answer(), Answer(status, body)])
    assert export(collector.url) == 2
    (line,) = said
    assert line.startswith(f"kvscope: {collector.url}/v1/traces answers {status}")
    assert f"; {len(collector.spans)} spans had arrived before" in line
    assert len(collector.spans) > 400
    assert len(line) < 350
    assert len(collector.paths) == 3, "what was refused is not tried again"


def test_a_collector_that_is_not_there(said: list[str]) -> None:
    (port,) = free_ports(1)
    assert export(f"http://127.0.0.1:{port}") == 2
    *_, line = said
    assert f"http://127.0.0.1:{port}/v1/traces cannot be reached: connection refused" in line
    assert "0 spans had arrived before" in line


def test_a_collector_that_dies_on_the_way(collector: Collector, said: list[str]) -> None:
    collector.answers.extend([Answer(), *[Answer(drop=True)] * 10_000])
    assert export(collector.url) == 2
    *_, line = said
    assert "cannot be reached" in line
    assert f"; {len(collector.spans)} spans had arrived before" in line


def test_something_else_listens_there(collector: Collector, said: list[str]) -> None:
    collector.answers.append(Answer(200, b"<html>welcome</html>"))
    assert export(collector.url) == 2
    (line,) = said
    assert "answers, but not as a collector of traces does" in line


def test_spans_that_the_collector_throws_away_are_counted(collector: Collector, said: list[str]) -> None:
    collector.answers.extend([partly(3, "too old"), Answer(), partly(4, "too\n old")])
    assert export(collector.url) == 1
    (line,) = said
    assert line.endswith("; it threw 7 spans away: too old")


def test_what_a_collector_says_that_threw_nothing_away_is_told(collector: Collector, said: list[str]) -> None:
    collector.answers.extend([partly(0, "use gzip")])
    assert export(collector.url) == 0
    (line,) = said
    assert line.endswith("; it says: use gzip")


def test_less_than_none_thrown_away_is_no_number(collector: Collector, said: list[str]) -> None:
    collector.answers.extend([partly(-1, ""), Answer(), partly(2, "too old")])
    assert export(collector.url) == 1
    (line,) = said
    assert line.endswith("; it threw 2 spans away: too old")


def test_headers_and_path_are_those_that_were_named(collector: Collector) -> None:
    words = ("--otlp-header", "Authorization: Bearer s3cret", "--otlp-header", "X-Scope-OrgID:one")
    assert export(f"{collector.url}/tenant/", *words) == 0
    assert set(collector.paths) == {"/tenant/v1/traces"}
    assert collector.headers[0]["Authorization"] == "Bearer s3cret"
    assert collector.headers[0]["X-Scope-OrgID"] == "one"
    assert collector.headers[0]["Content-Type"] == "application/x-protobuf"


def test_opentelemetrys_variables_count_when_told(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{collector.url}/base")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20one,x-more = 2")
    assert export("env", "--otlp-header", "x-more: 3") == 0
    assert set(collector.paths) == {"/base/v1/traces"}
    assert collector.headers[0]["authorization"] == "Bearer one"
    assert collector.headers[0]["x-more"] == "3"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/own")
    assert export("env") == 0
    assert collector.paths[-1] == "/own/"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_over_tls_it_is_checked_who_answers(tmp_path: Path, said: list[str]) -> None:
    certificate, other = (signed(tmp_path / name) for name in ("one", "other"))
    with Collector(certificate) as collector:
        assert export(collector.url) == 2
        assert export(collector.url, "--otlp-ca", str(other)) == 2
        assert not collector.requests
        assert export(collector.url, "--otlp-ca", str(certificate)) == 0
        assert len(collector.spans) > SPANS
        assert export(collector.url.replace("https", "http")) == 2
    lines = list(said)
    assert sum("shows a certificate that cannot be trusted" in line for line in lines) == 2


def signed(folder: Path) -> Path:
    """A key and a certificate that it signed itself, in one file."""
    folder.mkdir()
    made = folder / "both.pem"
    words = "req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    paths = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(["openssl", *words.split(), *paths], check=True, capture_output=True)
    made.write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    return made


def test_tls_where_there_is_none(collector: Collector, said: list[str]) -> None:
    assert export(collector.url.replace("http", "https")) == 2
    (line,) = said
    assert "does not speak TLS" in line


def test_a_file_of_json_lines_holds_the_same_spans(collector: Collector, tmp_path: Path, said: list[str]) -> None:
    path = tmp_path / "spans.jsonl"
    assert main(["export", REAL, "--otlp", str(path)]) == 0
    assert export(collector.url) == 0
    written = [
        (span["traceId"], span["spanId"], span.get("parentSpanId", ""), span["name"], int(span["startTimeUnixNano"]))
        for line in path.read_text().splitlines()
        for group in json.loads(line)["resourceSpans"]
        for scope in group["scopeSpans"]
        for span in scope["spans"]
    ]
    sent = [(*names(each.span), each.span.name, each.span.start_time_unix_nano) for each in collector.spans]
    assert sorted(written) == sorted(sent)
    assert main(["export", REAL, "--otlp", str(path)]) == 2
    assert main(["export", REAL, "--otlp", str(path), "--force"]) == 0
    assert [each.name for each in tmp_path.iterdir()] == ["spans.jsonl"]
    assert any("is there already" in line for line in said)


def names(span: object) -> tuple[str, ...]:
    return tuple(getattr(span, name).hex() for name in ("trace_id", "span_id", "parent_span_id"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--otlp", "grpc://host:4317"), "name it so: http://host:4317"),
        (("--otlp", "collector:4318"), "name it so: http://collector:4318"),
        (("--otlp", "http://"), "an address such as http://collector:4318 is expected"),
        (("--otlp", "http://host:99999"), "an address such as http://collector:4318 is expected"),
        (("--otlp", "http://me:pw@host"), "leave name and password out of the address"),
        (("--otlp", "http://host", "--otlp-header", "secret"), "a name and a value are expected"),
        (("--otlp", "http://host", "--otlp-header", "A: b\nC: d"), "a name and a value are expected"),
        (("--otlp", "env"), "OTEL_EXPORTER_OTLP_ENDPOINT is not set"),
        (("--otlp", "https://localhost:1", "--otlp-ca", "README.md"), "README.md holds no certificates"),
        (("--otlp", "https://localhost:1", "--otlp-ca", "/dev/zero"), "/dev/zero cannot be read: not a regular file"),
        (("--otlp", "https://localhost:1", "--otlp-ca", "nowhere.pem"), "nowhere.pem cannot be read: no such file"),
        (("--otlp", "nowhere/spans.jsonl"), "cannot write nowhere/spans.jsonl: no such file"),
        (("--otlp", ""), "an empty"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(words: tuple[str, ...], sentence: str, said: list[str]) -> None:
    assert main(["export", REAL, *words]) == 2
    line = list(said)[-1]
    assert sentence in line
    assert "secret" not in line


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector", "OTEL_EXPORTER_OTLP_ENDPOINT collector: an address"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "spans are sent as http/protobuf"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "hidden", "a header without a name: name=value is expected in OTEL"),
    ],
)
def test_variables_that_cannot_be(
    name: str, value: str, sentence: str, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:1")
    monkeypatch.setenv(name, value)
    assert export("env") == 2
    (line,) = said
    assert sentence in line
