"""Exit codes and signals of a real process."""

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration

DEADLINE_S = 20

EXIT_NOW = """
import atexit, sys, threading
from bigfleet.aio.proc import SystemProc
atexit.register(print, "clean-up ran")
def give_up():
    sys.stdout.write("last words without a newline")
    SystemProc().exit_now(71)
thread = threading.Thread(target=give_up)
thread.start()
thread.join()
"""

SERVE = """
import asyncio, sys
from bigfleet.aio.proc import SystemProc
proc = SystemProc()
async def main():
    with proc.listen():
        print("ready", flush=True)
        print(await proc.wait_stop(), flush=True)
        await proc.wait_hurry()
        proc.request_stop("no time for grace", 1)
    return proc.exit_code
sys.exit(asyncio.run(main()))
"""


def test_exit_now_ends_the_process_from_any_thread_without_clean_up_but_with_what_was_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXIT_NOW], capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )
    assert done.returncode == 71
    assert done.stdout == "last words without a newline"


def test_the_first_signal_stops_and_the_second_hurries() -> None:
    with subprocess.Popen([sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGTERM)
            assert process.stdout.readline() == "SIGTERM\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=DEADLINE_S) == 1
        finally:
            process.kill()
