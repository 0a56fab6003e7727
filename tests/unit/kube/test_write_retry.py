"""A write is repeated after a conflict, and until a temporary error has passed."""

import asyncio
from itertools import pairwise

import pytest

from bigfleet.aio.clock import monotonic_s
from bigfleet.kube.errors import ForbiddenError, UnreachableError
from bigfleet.kube.resources import UPCOMING_NODES, ObjectKey
from bigfleet.kube.transport import ApiResponse
from bigfleet.kube.write_retry import WriteRetry
from bigfleet.testing.loop import run_virtual
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.kube_api.world import KubeWorld

KEY = ObjectKey("", "un-m1")
CONFLICT = ApiResponse(409, {"code": 409, "reason": "Conflict"})


async def one_node(world: KubeWorld) -> dict[str, object]:
    spec = {"labels": {"a": "1", "b": "2"}, "resources": {"cpu": "1500m"}}
    return await world.add(UPCOMING_NODES, {"metadata": {"name": KEY.name}, "spec": spec})


def retry(world: KubeWorld) -> WriteRetry:
    return WriteRetry(world.clock, world.rng.stream("writes"))


def test_a_conflict_is_tried_five_times_before_the_first_long_wait() -> None:
    async def main() -> None:
        world = KubeWorld()
        await one_node(world)
        world.transport.add(Fault(CONFLICT, times=100))

        async def attempt() -> object:
            return await world.client.get(UPCOMING_NODES, KEY)

        assert await retry(world).until_written(attempt, is_stale=lambda: True) is None
        assert len(world.transport.calls) == 5
        assert monotonic_s(world.clock) < 0.05

    run_virtual(main())


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(CONFLICT, times=12), id="a storm of conflicts"),
        pytest.param(Fault(ApiResponse(500, "oops"), times=9), id="500 for a while"),
        pytest.param(Fault(ApiResponse(429, "busy", {"Retry-After": "2"}), times=4), id="busy"),
        pytest.param(Fault(Trouble.BREAK, times=6), id="unreachable"),
    ],
)
def test_a_write_succeeds_once_the_fault_has_passed(fault: Fault) -> None:
    async def main() -> None:
        world = KubeWorld()
        await one_node(world)
        world.transport.add(fault)

        async def attempt() -> object:
            return await world.client.merge_patch(UPCOMING_NODES, KEY, {"spec": {"labels": {"c": "3"}}})

        assert await retry(world).until_written(attempt) is not None
        assert world.api.objects.of(UPCOMING_NODES)[KEY]["spec"]["labels"]["c"] == "3"
        waits = [(after[0] - before[0]) / 1e9 for before, after in pairwise(world.transport.calls)]
        assert 0.2 <= max(waits) <= 12.0

    run_virtual(main())


def test_a_refusal_that_does_not_pass_is_raised() -> None:
    async def main() -> None:
        world = KubeWorld()
        world.transport.add(Fault(ApiResponse(403, {"code": 403}), times=100))

        async def attempt() -> object:
            return await world.client.get(UPCOMING_NODES, KEY)

        with pytest.raises(ForbiddenError):
            await retry(world).until_written(attempt, retry_forbidden=False)
        assert len(world.transport.calls) == 1

    run_virtual(main())


def test_a_write_that_has_become_stale_is_given_up() -> None:
    async def main() -> None:
        world = KubeWorld()
        world.transport.add(Fault(Trouble.BREAK, times=10_000))
        stale = False

        async def attempt() -> object:
            return await world.client.get(UPCOMING_NODES, KEY)

        writing = asyncio.ensure_future(retry(world).until_written(attempt, is_stale=lambda: stale))
        await world.clock.sleep(60)
        assert not writing.done()
        stale = True
        assert await writing is None

    run_virtual(main())


def test_an_answer_that_was_lost_is_unreachable_and_the_write_is_there() -> None:
    async def main() -> None:
        world = KubeWorld()
        await one_node(world)
        world.transport.add(Fault(Trouble.LOSE_ANSWER))
        with pytest.raises(UnreachableError):
            await world.client.merge_patch(UPCOMING_NODES, KEY, {"spec": {"labels": {"c": "3"}}})
        assert world.api.objects.of(UPCOMING_NODES)[KEY]["spec"]["labels"]["c"] == "3"

    run_virtual(main())


def test_a_forbidden_write_is_repeated_unless_the_caller_says_otherwise() -> None:
    async def main() -> None:
        world = KubeWorld()
        await one_node(world)
        refused = ApiResponse(403, {"code": 403, "reason": "Forbidden", "message": "not yet"})
        world.transport.add(Fault(refused, times=3, method="PATCH"))

        async def attempt() -> bool:
            await world.client.merge_patch(UPCOMING_NODES, KEY, {"spec": {"labels": {"c": "3"}}})
            return True

        assert await retry(world).until_written(attempt)
        assert world.transport.count(lambda call: call.method == "PATCH") == 4

    run_virtual(main())
