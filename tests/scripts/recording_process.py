"""A process that records on command: a line of standard input is an order, a line of output says that it is done.

write N [ROLE]   N events, from the main thread, or from a thread of that role
again N          N events for ever, until killed, in bursts that lap the ring
note TEXT        not instrumented, because
die              SIGKILL to itself
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from kvscope.probe import recorder
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE

CHUNK = MOMENT_CODE["chunk"]
PREFILL = LEG_CODE["prefill"]


def write(count: int, first: int) -> None:
    """Event i: time i + 1, tokens i, request i // 10."""
    for number in range(first, first + count):
        recorder.record(CHUNK, PREFILL, f"{sys.argv[1]}-request-{number // 10}", number + 1, number)


def write_in_thread(count: int, first: int, role: str) -> None:
    def work() -> None:
        recorder.set_role(role)
        write(count, first)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def main() -> None:
    engine = sys.argv[1]
    recorder.set_main_role("core")
    recorder.describe({"engine": engine, "engine_id": f"{engine}-1", "vllm": "0.32.0"})
    written = 0
    print("ready", flush=True)
    for line in sys.stdin:
        order, *words = line.split(maxsplit=2)
        if order == "write":
            count = int(words[0])
            write(count, written) if len(words) == 1 else write_in_thread(count, written, words[1].strip())
            written += count
        elif order == "again":
            print("going", flush=True)
            while True:
                write(int(words[0]), written)
                written += int(words[0])
        elif order == "note":
            recorder.note_uninstrumented(line.split(maxsplit=1)[1].strip())
        elif order == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        print(f"done {written}", flush=True)


main()
