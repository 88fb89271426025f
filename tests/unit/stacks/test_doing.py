"""Stacks as engines have them -> what the thread was doing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.stacks.doing import MEANINGS, TABLE, WAITING, doing

NIXL = "vllm/distributed/kv_transfer/kv_connector/v1/nixl"
THREAD = ("Thread._bootstrap (threading.py:1002)", "Thread.run (threading.py:982)")
WRITER = (*THREAD, f"NixlPushConnectorWorker._push_writer_loop ({NIXL}/push_worker.py:260)")
POSTING = (
    *WRITER,
    f"NixlPushConnectorWorker._do_start_push_kv ({NIXL}/push_worker.py:505)",
    f"NixlPushConnectorWorker._xfer_blocks ({NIXL}/push_worker.py:700)",
)
CORE = (
    "EngineCoreProc.run_engine_core (vllm/v1/engine/core.py:900)",
    "EngineCoreProc.run_busy_loop (vllm/v1/engine/core.py:950)",
)
STEP = (*CORE, "EngineCore.step (vllm/v1/engine/core.py:400)")
FORWARD = (
    *STEP,
    "UniProcExecutor.execute_model (vllm/v1/executor/uniproc_executor.py:90)",
    "GPUModelRunner.execute_model (vllm/v1/worker/gpu_model_runner.py:2500)",
    "Module._call_impl (torch/nn/modules/module.py:1780)",
)  # fmt: skip


@pytest.mark.parametrize(
    ("frames", "asleep", "told"),
    [
        ((*POSTING, f"NixlBaseConnectorWorker._compute_desc_ids ({NIXL}/base_worker.py:150)"), False, "descriptors"),
        ((*POSTING, "nixl_agent.make_prepped_xfer (nixl_cu12/_api.py:700)"), False, "descriptors"),
        ((*POSTING, "nixl_agent.transfer (nixl_cu12/_api.py:760)"), False, "NIXL post"),
        ((*POSTING, "nixl_agent.transfer (nixl/_api.py:760)"), True, "NIXL post"),
        ((*WRITER, "nixl_agent.get_new_notifs (nixl_cu12/_api.py:800)"), False, "NIXL poll"),
        (POSTING, False, "connector"),
        ((*WRITER, "Event.wait (threading.py:629)", "Condition.wait (threading.py:327)"), True, "waiting"),
        ((*WRITER, "Event.wait (threading.py:629)", "Condition.wait (threading.py:331)"), False, "waking"),
        (FORWARD, False, "forward"),
        (FORWARD, True, "forward"),
        ((*STEP, "Scheduler.schedule (vllm/v1/core/sched/scheduler.py:300)"), False, "scheduler"),
        (STEP, False, "engine loop"),
        ((*CORE, "EngineCoreProc._process_input_queue (vllm/v1/engine/core.py:970)", "Queue.get (queue.py:171)"), True,
         "waiting"),
        ((*STEP, "MessageQueue.acquire_read (vllm/distributed/device_communicators/shm_broadcast.py:864)",
          "SpinCondition.wait (vllm/distributed/device_communicators/shm_broadcast.py:208)",
          "sched_yield (vllm/distributed/utils.py:46)"), False, "spinning"),
        ((*STEP, "SpinCondition.wait (vllm/distributed/device_communicators/shm_broadcast.py:210)",
          "Poller.poll (zmq/sugar/poll.py:106)"), True, "waiting"),
        ((*STEP, "Queue.put (queue.py:152)", "Condition.notify (threading.py:382)"), False, "engine loop"),
        ((*CORE, "EngineCoreProc._process_engine_step (vllm/v1/engine/core.py:1617)"), True, "pausing"),
        ((*STEP, "nixl_agent.send_notif (nixl_cu13/_api.py:865)"), False, "NIXL notify"),
        ((*STEP, "record (kvscope/probe/recorder.py:110)"), False, "kvscope"),
        ((*THREAD, "Own.work (/srv/plugin.py:12)"), False, "other: Own.work (/srv/plugin.py)"),
        ((*THREAD, "Own.work (/srv/plugin.py:12)"), True, "asleep: Own.work (/srv/plugin.py)"),
        ((), True, "waiting"),
        ((), False, "no Python frame"),
    ],
)  # fmt: skip
def test_doing(frames: tuple[str, ...], asleep: bool, told: str) -> None:
    assert doing(frames, asleep) == told


def test_every_name_has_a_meaning_and_is_in_the_document() -> None:
    assert {each.name for each in TABLE} | {WAITING} <= set(MEANINGS)
    page = (Path(__file__).parents[3] / "docs" / "profile.md").read_text()
    assert [name for name in MEANINGS if f"`{name}`" not in page] == []
