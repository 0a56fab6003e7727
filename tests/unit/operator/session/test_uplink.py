"""12 to 14: the slot, the outbox, and what happens when they are full."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.obs.metrics import Metrics
from bigfleet.operator.metrics import OPERATOR_METRICS
from bigfleet.operator.options import OUTBOX, OUTBOX_BETWEEN_ROLLUPS
from bigfleet.operator.session.uplink import PreparedRollup, Uplink
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual


class Stalling:
    """A stream that takes frames only while `going` is set."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.going = asyncio.Event()

    async def send(self, message: bytes) -> None:
        await self.going.wait()
        self.sent.append(message)


class Bench:
    def __init__(self) -> None:
        self.clock, self.registry, self.stream = VirtualClock(), CollectorRegistry(), Stalling()
        metrics = Metrics(OPERATOR_METRICS, self.registry, version="0", commit="0")
        self.uplink = Uplink(self.clock, metrics)
        self.acknowledged: list[str] = []

    def rollup(self, name: str) -> PreparedRollup:
        return PreparedRollup(name.encode(), 1, lambda: self.acknowledged.append(name))

    @property
    def dropped(self) -> float:
        return self.registry.get_sample_value("bigfleet_operator_outbox_dropped_total") or 0.0


def play(scene: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        bench = Bench()
        writing = asyncio.ensure_future(bench.uplink.run(bench.stream))
        await scene(bench)
        writing.cancel()
        await asyncio.wait({writing})

    run_virtual(main())


@pytest.mark.rule("operator#rollup-slot")
def test_of_a_hundred_rollups_made_during_a_stall_only_the_newest_is_sent() -> None:
    async def scene(bench: Bench) -> None:
        bench.uplink.offer_rollup(bench.rollup("r0"))
        await bench.clock.sleep(1)  # r0 is on its way and stalls
        for number in range(1, 101):
            bench.uplink.offer_rollup(bench.rollup(f"r{number}"))
        await bench.clock.sleep(1)
        bench.stream.going.set()
        await bench.clock.sleep(1)
        assert bench.stream.sent == [b"r0", b"r100"]
        assert bench.acknowledged == ["r0", "r100"]  # 29: called only after it was sent

    play(scene)


@pytest.mark.rule("operator#outbox")
def test_the_257th_ack_in_a_full_outbox_is_dropped_and_counted() -> None:
    async def scene(bench: Bench) -> None:
        assert all(bench.uplink.put(b"x") for _ in range(OUTBOX))
        assert not bench.uplink.put(b"one too many")
        assert bench.dropped == 1

    play(scene)


@pytest.mark.rule("operator#blob-waits")
def test_a_bootstrap_answer_waits_for_a_place_and_gets_it() -> None:
    async def scene(bench: Bench) -> None:
        for _ in range(OUTBOX + 1):
            bench.uplink.put(b"x")
            await bench.clock.sleep(0)
        waiting = asyncio.ensure_future(bench.uplink.put_within(b"blob", 25.0))
        await bench.clock.sleep(24)
        assert not waiting.done()
        bench.stream.going.set()
        assert await waiting
        await bench.clock.sleep(1)
        assert bench.stream.sent[-1] == b"blob"
        assert bench.dropped == 0

    play(scene)


@pytest.mark.rule("operator#blob-waits")
def test_an_answer_that_is_too_late_is_dropped_and_counted() -> None:
    async def scene(bench: Bench) -> None:
        for _ in range(OUTBOX + 1):
            bench.uplink.put(b"x")
            await bench.clock.sleep(0)
        assert not await bench.uplink.put_within(b"blob", 25.0)
        assert bench.clock.monotonic_ns() >= 25 * 10**9
        assert bench.dropped == 1

    play(scene)


def test_answers_go_first_but_never_keep_a_rollup_from_leaving() -> None:
    async def scene(bench: Bench) -> None:
        bench.uplink.put(b"first")
        await bench.clock.sleep(0)
        for number in range(200):
            bench.uplink.put(str(number).encode())
        bench.uplink.offer_rollup(bench.rollup("rollup"))
        bench.stream.going.set()
        await bench.clock.sleep(1)
        assert bench.stream.sent.index(b"rollup") == OUTBOX_BETWEEN_ROLLUPS
        assert len(bench.stream.sent) == 202

    play(scene)


def test_a_hello_goes_before_all_else() -> None:
    async def scene(bench: Bench) -> None:
        bench.uplink.put(b"first")
        await bench.clock.sleep(0)
        bench.uplink.put(b"second")
        bench.uplink.offer_rollup(bench.rollup("rollup"))
        bench.uplink.greet(b"hello")
        bench.stream.going.set()
        await bench.clock.sleep(1)
        assert bench.stream.sent == [b"first", b"hello", b"second", b"rollup"]

    play(scene)
