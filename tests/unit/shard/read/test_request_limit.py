"""A few at a time, a few in line, the rest refused (`dashboard#insight-service`)."""

import asyncio

import pytest

from bigfleet.aio.net import Code, RpcRefusedError
from bigfleet.shard.read.request_limit import RequestLimit
from bigfleet.testing.loop import run_virtual


def test_so_many_at_once_so_many_in_line_and_the_rest_is_refused() -> None:
    async def scenario() -> None:
        slots, inside, leave = RequestLimit("tales", at_once=2, waiting=1), list[int](), asyncio.Event()

        async def work(number: int) -> None:
            async with slots.one():
                inside.append(number)
                await leave.wait()

        tasks = [asyncio.create_task(work(number)) for number in range(3)]
        await asyncio.sleep(0)
        assert inside == [0, 1]
        with pytest.raises(RpcRefusedError, match="3 tales are under way or wait already") as refused:
            await work(3)
        assert refused.value.code is Code.RESOURCE_EXHAUSTED
        leave.set()
        await asyncio.gather(*tasks)
        assert inside == [0, 1, 2]
        await work(4)
        assert inside[-1] == 4

    run_virtual(scenario())


def test_who_gives_up_or_fails_leaves_no_slot_taken() -> None:
    async def scenario() -> None:
        slots = RequestLimit("tales", at_once=1, waiting=0)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                async with slots.one():
                    raise ZeroDivisionError
        holding = asyncio.create_task(_hold(slots))
        await asyncio.sleep(0)
        holding.cancel()
        await asyncio.wait([holding])
        async with slots.one():
            pass

    run_virtual(scenario())


async def _hold(slots: RequestLimit) -> None:
    async with slots.one():
        await asyncio.get_running_loop().create_future()
