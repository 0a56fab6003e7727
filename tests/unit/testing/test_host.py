"""The modelled processor: work takes its time, one piece after another."""

import asyncio
from functools import partial

from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.host import VirtualHost
from bigfleet.testing.loop import run_virtual, virtual_loop

SECOND = 1_000_000_000


def test_work_takes_its_modelled_time_per_unit() -> None:
    async def main() -> None:
        host = VirtualHost(costs_s={"cycle": 0.001})
        await host.charge("cycle", 2_500)
        assert virtual_loop().now_ns == 2.5 * SECOND
        await host.charge("cycle")
        assert host.charged_ns == {"cycle": 2_501_000_000}

    run_virtual(main())


def test_work_that_is_not_in_the_model_is_free() -> None:
    async def main() -> None:
        host = VirtualHost()
        host.stall(5)
        await host.charge("cycle", 1_000_000)
        assert virtual_loop().now_ns == 0
        assert host.charged_ns == {}

    run_virtual(main())


def test_two_pieces_of_work_on_one_host_run_one_after_the_other() -> None:
    async def main() -> tuple[int, ...]:
        async def work(host: VirtualHost) -> int:
            await host.charge("cycle", 3)
            return virtual_loop().now_ns // SECOND

        one, other = VirtualHost(costs_s={"cycle": 1}), VirtualHost(costs_s={"cycle": 1})
        together = await asyncio.gather(work(one), work(one), work(other))
        return (*together, await work(one))

    assert run_virtual(main()) == (3, 6, 3, 9)


def test_ticks_of_a_busy_host_come_late_and_those_of_its_neighbour_do_not() -> None:
    async def main() -> list[tuple[str, int]]:
        ticks: list[tuple[str, int]] = []

        def tick(name: str) -> None:
            ticks.append((name, virtual_loop().now_ns // SECOND))

        busy, idle = VirtualHost(costs_s={"cycle": 1}), VirtualHost()
        for name, host in (("busy", busy), ("idle", idle)):
            clock = VirtualClock(host=host)
            for second in (1, 2, 5):
                clock.call_later(second, partial(tick, name))
        await busy.charge("cycle", 4)
        await asyncio.sleep(6)
        return ticks

    assert run_virtual(main()) == [
        ("idle", 1),
        ("idle", 2),
        ("busy", 4),
        ("busy", 4),
        ("busy", 5),
        ("idle", 5),
    ]
