"""The GIL of processes that end while it is looked for."""

from __future__ import annotations

import subprocess
import sys
import threading

from kvscope.stacks.gil import Gil


def test_the_memory_of_a_process_that_has_ended_is_not_read_for_ever() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    gil = Gil(process.pid)
    try:
        process.kill()
        process.communicate()
        looking = threading.Thread(target=gil.locate, args=(1 << 22, {process.pid}), daemon=True)
        looking.start()
        looking.join(20)
        assert not looking.is_alive()
        assert (gil.at, gil.holder()) == (0, None)
    finally:
        gil.close()
