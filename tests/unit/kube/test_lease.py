"""At most one candidate works at a time, and it stops before the lease can pass to another."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest

from bigfleet.aio.clock import monotonic_s
from bigfleet.kube.client import KubeClient
from bigfleet.kube.lease import Lease, LeaseTimes
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.resources import LEASES, ObjectKey
from bigfleet.kube.transport import ApiResponse
from bigfleet.model.errors import InvalidFieldError
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual
from tests.support.kube_api.faults import Fault, FaultyTransport, Trouble
from tests.support.kube_api.world import KubeWorld

KEY = ObjectKey("bigfleet", "operator")


class Candidate:
    """One process that wants to lead, behind a transport of its own."""

    def __init__(self, world: KubeWorld, name: str, *, drift_ppm: int = 0) -> None:
        self.clock = VirtualClock(drift_ppm=drift_ppm)
        self.transport = FaultyTransport(world.api.transport(), self.clock)
        self.client = KubeClient(self.transport, RateLimiter(self.clock))
        self.lease = Lease(
            self.client, KEY, name, clock=self.clock, stream=world.rng.child(name).stream("lease")
        )
        self.working = False
        self.spans: list[tuple[float, float]] = []
        self._now: Callable[[], float] = lambda: monotonic_s(world.clock)

    async def work(self) -> None:
        began_s, self.working = self._now(), True
        try:
            await asyncio.Event().wait()
        finally:
            self.working = False
            self.spans.append((began_s, self._now()))

    def start(self) -> "asyncio.Future[bool]":
        return asyncio.ensure_future(self.lease.lead(self.work))


async def end(*tasks: "asyncio.Future[bool]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def test_the_first_one_creates_the_lease_and_leads() -> None:
    async def main() -> None:
        world = KubeWorld()
        candidate = Candidate(world, "a")
        task = candidate.start()
        await world.eventually(lambda: candidate.working, 5)
        spec = world.api.objects.of(LEASES)[KEY]["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (
            "a",
            15,
            0,
        )
        assert spec["acquireTime"] == "2030-01-01T00:00:00.000000Z"
        await world.clock.sleep(60)
        assert candidate.working
        assert world.api.objects.of(LEASES)[KEY]["spec"]["renewTime"] > "2030-01-01T00:00:57"
        await end(task)

    run_virtual(main())


def test_a_second_one_waits_and_takes_over_at_once_when_the_lease_is_given_back() -> None:
    async def main() -> None:
        world = KubeWorld()
        first, second = Candidate(world, "a"), Candidate(world, "b")
        tasks = [first.start()]
        await world.eventually(lambda: first.working, 5)
        tasks.append(second.start())
        await world.clock.sleep(100)
        assert not second.working
        await end(tasks[0])
        await world.eventually(lambda: second.working, 4)
        assert world.api.objects.of(LEASES)[KEY]["spec"]["leaseTransitions"] >= 1
        await end(tasks[1])

    run_virtual(main())


@pytest.mark.parametrize(
    "trouble", [Trouble.BREAK, Trouble.SILENCE, ApiResponse(500, "no"), ApiResponse(429, "busy")]
)
def test_without_renewals_the_work_stops_before_another_may_begin(
    trouble: Trouble | ApiResponse,
) -> None:  # `operator#u6`
    async def main() -> None:
        world = KubeWorld()
        first, second = Candidate(world, "a"), Candidate(world, "b")
        tasks = [first.start()]
        await world.eventually(lambda: first.working, 5)
        tasks.append(second.start())
        await world.clock.sleep(30)
        first.transport.add(Fault(trouble, times=10_000))
        cut_s = monotonic_s(world.clock)
        assert not await tasks[0]  # it did not end by itself
        await world.eventually(lambda: second.working, 60)
        (_, stopped_s), *_ = first.spans
        assert stopped_s - cut_s <= 10.1
        assert monotonic_s(world.clock) - stopped_s >= 2.0
        await end(tasks[1])

    run_virtual(main())


def test_a_lease_taken_away_by_hand_ends_the_work_at_the_next_look() -> None:
    async def main() -> None:
        world = KubeWorld()
        candidate = Candidate(world, "a")
        task = candidate.start()
        await world.eventually(lambda: candidate.working, 5)
        patch = {"spec": {"holderIdentity": "somebody", "renewTime": "2031-01-01T00:00:00.000000Z"}}
        await world.client.merge_patch(LEASES, KEY, patch)
        assert not await task
        assert world.api.objects.of(LEASES)[KEY]["spec"]["holderIdentity"] == "somebody"

    run_virtual(main())


def test_clocks_that_disagree_do_not_make_two_leaders() -> None:
    async def main() -> None:
        world = KubeWorld()
        slow, fast = Candidate(world, "slow", drift_ppm=-20_000), Candidate(world, "fast", drift_ppm=20_000)
        fast.clock.jump_wall(86_400)
        slow.clock.jump_wall(-86_400)
        tasks = [slow.start(), fast.start()]
        dice = world.rng.stream("dice")
        for _ in range(200):
            await world.clock.sleep(dice.uniform(0, 20))
            assert not (slow.working and fast.working)
            chosen = dice.choice([slow, fast])
            chosen.transport.add(Fault(Trouble.BREAK, times=dice.randint(0, 6)))
            tasks = [
                task if not task.done() else candidate.start()
                for task, candidate in zip(tasks, (slow, fast), strict=True)
            ]
        spans = sorted([*slow.spans, *fast.spans])
        assert len(spans) > 3
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
        await end(*tasks)

    run_virtual(main())


def test_work_that_ends_by_itself_gives_the_lease_back() -> None:
    async def main() -> None:
        world = KubeWorld()
        candidate = Candidate(world, "a")

        async def brief() -> None:
            await candidate.clock.sleep(5)

        assert await candidate.lease.lead(brief)
        assert world.api.objects.of(LEASES)[KEY]["spec"]["holderIdentity"] == ""

    run_virtual(main())


def test_an_error_of_the_work_is_the_error_of_leading() -> None:
    async def main() -> None:
        world = KubeWorld()

        async def broken() -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await Candidate(world, "a").lease.lead(broken)
        assert world.api.objects.of(LEASES)[KEY]["spec"]["holderIdentity"] == ""

    run_virtual(main())


def test_times_that_leave_no_margin_are_refused() -> None:
    with pytest.raises(InvalidFieldError, match="retry < renew deadline < duration"):
        LeaseTimes(duration_s=10, renew_deadline_s=10)
