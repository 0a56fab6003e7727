"""Stopping: what signals and requests mean, on the real process and on the virtual one."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bigfleet.aio.proc import Proc, SystemProc
from bigfleet.model.errors import InvalidFieldError
from bigfleet.testing.proc import ProcessExitedError, VirtualProc

DEADLINE_S = 10.0


class SupervisedSystem:
    def __init__(self) -> None:
        self.system = SystemProc()
        self.proc: Proc = self.system

    def send(self, number: signal.Signals) -> None:
        os.kill(os.getpid(), number)

    @contextmanager
    def running(self) -> Iterator[None]:
        with self.system.listen():
            yield


class SupervisedVirtual:
    def __init__(self) -> None:
        self.virtual = VirtualProc()
        self.proc: Proc = self.virtual

    def send(self, number: signal.Signals) -> None:
        self.virtual.raise_signal(number)

    @contextmanager
    def running(self) -> Iterator[None]:
        yield


Either = SupervisedSystem | SupervisedVirtual


@pytest.fixture(params=[SupervisedSystem, SupervisedVirtual], ids=["system", "virtual"])
def supervised(request: pytest.FixtureRequest) -> Either:
    made: Either = request.param()
    return made


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_for_a_stop_with_code_zero_and_says_which(
    supervised: Either, number: signal.Signals
) -> None:
    async def main() -> None:
        with supervised.running():
            assert not supervised.proc.is_stopping()
            supervised.send(number)
            assert await asyncio.wait_for(supervised.proc.wait_stop(), DEADLINE_S) == number.name
            assert supervised.proc.is_stopping()
            assert supervised.proc.exit_code == 0

    asyncio.run(main())


def test_only_a_second_signal_hurries(supervised: Either) -> None:
    async def main() -> None:
        with supervised.running():
            supervised.proc.request_stop("the listener died", 1)
            supervised.send(signal.SIGTERM)
            hurry = asyncio.create_task(supervised.proc.wait_hurry())
            await asyncio.wait_for(supervised.proc.wait_stop(), DEADLINE_S)
            for _ in range(10):
                await asyncio.sleep(0)
            assert not hurry.done()
            supervised.send(signal.SIGINT)
            await asyncio.wait_for(hurry, DEADLINE_S)
            assert supervised.proc.exit_code == 1

    asyncio.run(main())


def test_the_first_reason_and_the_first_code_that_is_not_zero_stay(supervised: Either) -> None:
    async def main() -> None:
        with supervised.running():
            supervised.proc.request_stop("asked politely")
            supervised.proc.request_stop("the journal is torn", 71)
            supervised.proc.request_stop("a component died", 1)
            assert await asyncio.wait_for(supervised.proc.wait_stop(), DEADLINE_S) == "asked politely"
            assert supervised.proc.exit_code == 71

    asyncio.run(main())


def test_a_stop_asked_for_before_the_loop_runs_is_seen(supervised: Either) -> None:
    supervised.proc.request_stop("too early", 3)

    async def main() -> None:
        with supervised.running():
            assert await asyncio.wait_for(supervised.proc.wait_stop(), DEADLINE_S) == "too early"

    asyncio.run(main())
    assert supervised.proc.exit_code == 3


def test_a_stop_asked_for_on_another_thread_wakes_the_loop() -> None:
    async def main() -> str:
        proc = SystemProc()
        with proc.listen():
            waiting = asyncio.create_task(proc.wait_stop())
            await asyncio.to_thread(proc.request_stop, "the Raft thread gave up", 71)
            return await asyncio.wait_for(waiting, DEADLINE_S)

    assert asyncio.run(main()) == "the Raft thread gave up"


def test_signal_handlers_are_gone_after_listening() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def main() -> None:
        proc = SystemProc()
        with proc.listen():
            assert signal.getsignal(signal.SIGTERM) is not before
        assert signal.getsignal(signal.SIGTERM) == before

    asyncio.run(main())


def test_pids_are_told() -> None:
    assert SystemProc().pid == os.getpid()
    assert VirtualProc(pid=17).pid == 17


def test_a_virtual_exit_cannot_be_caught_as_an_exception_and_its_first_code_is_kept() -> None:
    proc = VirtualProc()
    assert proc.exited_with is None

    def careless() -> None:
        try:
            proc.exit_now(71)
        except Exception:
            pytest.fail("an exit was swallowed")

    with pytest.raises(ProcessExitedError) as caught:
        careless()
    assert caught.value.code == 71
    with pytest.raises(ProcessExitedError):
        proc.exit_now(1)
    assert proc.exited_with == 71


def test_only_stop_signals_can_be_raised_on_a_virtual_process() -> None:
    with pytest.raises(InvalidFieldError, match="SIGHUP"):
        VirtualProc().raise_signal(signal.SIGHUP)
