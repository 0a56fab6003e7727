"""The token bucket keeps the rate, serves the urgent first, and loses no token."""

import asyncio

import pytest

from bigfleet.aio.clock import monotonic_s
from bigfleet.kube.limiter import RateLimiter, Urgency
from bigfleet.model.errors import InvalidFieldError
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual


def test_a_burst_passes_at_once_and_the_rest_at_the_rate() -> None:
    async def main() -> list[float]:
        clock = VirtualClock()
        limiter = RateLimiter(clock, qps=10, burst=5)
        passed: list[float] = []

        async def one() -> None:
            await limiter.acquire()
            passed.append(round(monotonic_s(clock), 4))

        await asyncio.gather(*(one() for _ in range(8)))
        return passed

    assert run_virtual(main()) == [0, 0, 0, 0, 0, 0.1, 0.2, 0.3]


def test_the_urgent_overtake_and_equals_keep_their_order() -> None:
    async def main() -> list[str]:
        limiter = RateLimiter(VirtualClock(), qps=10, burst=1)
        await limiter.acquire()
        served: list[str] = []

        async def one(name: str, urgency: Urgency) -> None:
            await limiter.acquire(urgency)
            served.append(name)

        wanted = [
            ("ack1", Urgency.BULK),
            ("ack2", Urgency.BULK),
            ("node", Urgency.NORMAL),
            ("evict", Urgency.NOW),
        ]
        await asyncio.gather(*(one(name, urgency) for name, urgency in wanted))
        return served

    assert run_virtual(main()) == ["evict", "node", "ack1", "ack2"]


def test_a_cancelled_waiter_takes_no_token() -> None:
    async def main() -> float:
        clock = VirtualClock()
        limiter = RateLimiter(clock, qps=1, burst=1)
        await limiter.acquire()
        first = asyncio.ensure_future(limiter.acquire())
        second = asyncio.ensure_future(limiter.acquire())
        await clock.sleep(0.5)
        first.cancel()
        await second
        assert limiter.waiting == 0
        return monotonic_s(clock)

    assert run_virtual(main()) == pytest.approx(1.0, abs=1e-4)


def test_a_token_granted_to_one_who_is_cancelled_in_the_same_turn_goes_to_the_next() -> None:
    async def main() -> float:
        clock = VirtualClock()
        limiter = RateLimiter(clock, qps=1, burst=1)
        await limiter.acquire()
        first = asyncio.ensure_future(limiter.acquire())
        second = asyncio.ensure_future(limiter.acquire())
        # The timer of this sleep was set before the limiter's, so both fire in one turn and the grant is already made.
        await clock.sleep(0)
        clock.call_later(1.0, first.cancel)
        await second
        return monotonic_s(clock)

    assert run_virtual(main()) <= 2.001


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_rate_that_lets_nothing_through_is_refused(qps: float, burst: int) -> None:
    async def main() -> None:
        with pytest.raises(InvalidFieldError):
            RateLimiter(VirtualClock(), qps=qps, burst=burst)

    run_virtual(main())
