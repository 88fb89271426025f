"""Who an engine says it is, and that one without a name stays silent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvscope.probe import recorder
from kvscope.probe.reader import list_rings
from kvscope.vllm import failures, started

from .conftest import Trace

CONFIG = SimpleNamespace(
    kv_transfer_config=None,
    model_config=SimpleNamespace(served_model_name="m", model="/models/m", dtype="bf16", max_model_len=8),
    cache_config=SimpleNamespace(block_size=16, enable_prefix_caching=True),
    scheduler_config=SimpleNamespace(max_num_batched_tokens=64, max_num_seqs=4, async_scheduling=False),
    parallel_config=SimpleNamespace(data_parallel_index=1),
)
SCHEDULER = SimpleNamespace(vllm_config=CONFIG, kv_cache_config=SimpleNamespace(num_blocks=9))


def test_an_engine_without_our_connector_is_recorded_under_the_name_that_it_is_given(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVSCOPE_ENGINE", "plain")
    started.scheduler_made(SCHEDULER)
    (ring,) = list_rings(tmp_path / "run")
    told = {name: ring.started.get(name) for name in ("engine", "process", "model", "kv_blocks", "connector", "mode")}
    assert told == {
        "engine": "plain-dp1",
        "process": "core",
        "model": "m",
        "kv_blocks": 9,
        "connector": None,
        "mode": None,
    }
    assert [(moment.name, moment.thread) for moment in trace.moments("started")] == [("started", "core")]
    assert (trace.faults(), capsys.readouterr().err) == (0, "")


def test_without_a_name_it_records_nothing_and_says_so(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KVSCOPE_ENGINE", raising=False)
    monkeypatch.setattr(recorder.Here, "control", (1,))
    started.scheduler_made(SCHEDULER)
    failures.registration_expired(None, "r")
    assert list_rings(tmp_path / "run") == []
    assert "KVSCOPE_ENGINE" in capsys.readouterr().err


def test_one_whose_connector_has_told_who_it_is_says_nothing_twice(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KVSCOPE_ENGINE", "d0")
    push = SimpleNamespace(_TRANSFER_MODE="push")
    started.scheduler_started(push, CONFIG, "engine-d", SCHEDULER.kv_cache_config)
    started.scheduler_made(SCHEDULER)
    (ring,) = list_rings(tmp_path / "run")
    told = ring.started
    assert (told["engine_id"], told["mode"], told["placement"]) == ("engine-d", "push", "writer")
    assert len(trace.moments("started")) == 1


def test_one_whose_connector_could_not_tell_who_it_is_is_named_all_the_same(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KVSCOPE_ENGINE", raising=False)
    monkeypatch.setattr(started, "engine_name", lambda _config: "host:5600")
    transfer = SimpleNamespace(kv_connector="NixlPushConnector", engine_id="engine-p")
    config = SimpleNamespace(**{**vars(CONFIG), "kv_transfer_config": transfer})
    started.scheduler_made(SimpleNamespace(vllm_config=config, kv_cache_config=SCHEDULER.kv_cache_config))
    (ring,) = list_rings(tmp_path / "run")
    assert [ring.started[name] for name in ("engine", "engine_id", "connector")] == [
        "host:5600",
        "engine-p",
        "NixlPushConnector",
    ]


SILENCED = """
import os
from kvscope.probe import recorder
from kvscope.vllm.guard import tracepoint
said = []
call = tracepoint(said.append)
recorder.silence()
call(1)
if os.fork() == 0:
    call(2)
    os._exit(len(said))
print(os.waitstatus_to_exitcode(os.wait()[1]), len(said))
"""


def test_a_forked_child_of_a_silent_process_begins_anew(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "KVSCOPE_RUN_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SILENCED], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.split() == ["1", "0"]
