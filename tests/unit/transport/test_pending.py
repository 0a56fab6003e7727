import asyncio

import pytest

from bigfleet.testing.loop import run_virtual
from bigfleet.transport.pending import PendingRead


def test_a_caller_that_gives_up_leaves_the_read_to_the_next_one() -> None:
    async def run() -> None:
        begun = 0

        async def read() -> int:
            nonlocal begun
            begun += 1
            await asyncio.sleep(10)
            return begun

        reading = PendingRead(read)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await reading.next()
        assert await reading.next() == 1
        assert asyncio.get_running_loop().time() == 10
        assert await reading.next() == 2

    run_virtual(run())


def test_an_error_is_raised_once_to_whoever_waits() -> None:
    async def run() -> None:
        async def read() -> int:
            raise ValueError("x")

        reading = PendingRead(read)
        for _ in range(2):
            with pytest.raises(ValueError, match="x"):
                await reading.next()

    run_virtual(run())


def test_an_abandoned_read_is_cancelled() -> None:
    async def run() -> None:
        cancelled = asyncio.Event()

        async def read() -> int:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            return 0

        reading = PendingRead(read)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await reading.next()
        reading.abandon()
        await cancelled.wait()

    run_virtual(run())
