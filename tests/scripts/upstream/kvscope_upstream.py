"""A pytest plugin for vLLM's own tests: what they expect of their surroundings, and how each of them ended.

Instruments vLLM first if UPSTREAM_INSTRUMENTED is set. Writes a JSON object to UPSTREAM_OUTCOMES: `outcomes` by
test id and, instrumented, `how` and `faults`, the internal errors of the probe with where they arose.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

INSTRUMENTED = "UPSTREAM_INSTRUMENTED" in os.environ
OUTCOMES: dict[str, str] = {}
FAULTS: dict[str, int] = {}


def pytest_configure() -> None:
    """Put the patches in force before a test imports what they patch."""
    if not INSTRUMENTED:
        return
    import vllm  # noqa: F401 - as in an engine: vLLM is there before its plugins are

    from kvscope.probe import process, recorder

    process.ERRORS_ALLOWED = 1 << 30  # count on, rather than switch off
    counted = recorder.fault

    def fault(error: Exception) -> None:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{frame.name}: {frame.line}: {type(error).__name__}: {error}"
        FAULTS[said] = FAULTS.get(said, 0) + 1
        counted(error)

    recorder.fault = fault
    from kvscope.vllm import plugin

    plugin.load()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """The worst of set-up, call and tear-down counts."""
    if report.when == "call" or report.outcome != "passed":
        ended = report.when == "call" or report.skipped
        OUTCOMES[report.nodeid] = report.outcome if ended else f"error in {report.when}"


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A module that cannot be imported is an outcome too."""
    if report.failed:
        OUTCOMES[report.nodeid] = "error in collection"


def pytest_sessionfinish() -> None:
    """Write down what came of it."""
    told: dict[str, object] = {"outcomes": OUTCOMES}
    if INSTRUMENTED:
        from kvscope.vllm import status

        told |= {"how": status.how, "reason": status.reason, "faults": FAULTS}
    Path(os.environ["UPSTREAM_OUTCOMES"]).write_text(json.dumps(told, indent=1))


@pytest.fixture
def default_vllm_config() -> Iterator[object]:
    """A configuration in force."""
    from vllm.config import VllmConfig, set_current_vllm_config

    config = VllmConfig()
    with set_current_vllm_config(config):
        yield config


@pytest.fixture
def dist_init() -> Iterator[None]:
    """A world of one process."""
    from vllm.config import VllmConfig, get_current_vllm_config_or_none, set_current_vllm_config
    from vllm.distributed import parallel_state as world

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as config:
        if get_current_vllm_config_or_none() is None:
            config.enter_context(set_current_vllm_config(VllmConfig()))
        world.init_distributed_environment(1, 0, f"file://{folder}/store", 0, "gloo")
        world.initialize_model_parallel(1, 1)
        yield
        world.destroy_model_parallel()
        world.destroy_distributed_environment()
