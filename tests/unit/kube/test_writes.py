"""A write sends what differs, is repeated after a conflict, and lands when the server is well again."""

import asyncio

import pytest

from bigfleet.aio.clock import monotonic_s
from bigfleet.kube.errors import ConflictError, ForbiddenError, UnreachableError
from bigfleet.kube.link import Answer
from bigfleet.kube.merge_patch import quantities_by_value
from bigfleet.kube.resources import UPCOMING_NODES, ObjectKey
from bigfleet.kube.writes import patch_difference, retry_on_conflict, until_landed
from bigfleet.testing.loop import run_virtual
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.kube_api.world import KubeWorld

KEY = ObjectKey("", "un-m1")
CONFLICT = Answer(409, {"code": 409, "reason": "Conflict"})


async def one_node(world: KubeWorld) -> dict[str, object]:
    spec = {"labels": {"a": "1", "b": "2"}, "resources": {"cpu": "1500m"}}
    return await world.add(UPCOMING_NODES, {"metadata": {"name": KEY.name}, "spec": spec})


def test_only_differences_are_sent_and_removed_keys_go() -> None:
    async def main() -> None:
        world = KubeWorld()
        stored = await one_node(world)
        wanted = {"labels": {"a": "1"}, "resources": {"cpu": "1.5"}}
        after = await patch_difference(
            world.client,
            UPCOMING_NODES,
            KEY,
            {"spec": stored["spec"]},
            {"spec": wanted},
            same=quantities_by_value(("spec", "resources")),
        )
        assert after is not None
        assert after["spec"] == {"labels": {"a": "1"}, "resources": {"cpu": "1500m"}}
        assert world.link.calls[-1][1].body == {"spec": {"labels": {"b": None}}}
        assert world.link.calls[-1][1].content_type == "application/merge-patch+json"

    run_virtual(main())


def test_where_nothing_differs_nothing_is_sent() -> None:
    async def main() -> None:
        world = KubeWorld()
        stored = await one_node(world)
        part = {"spec": stored["spec"]}
        assert await patch_difference(world.client, UPCOMING_NODES, KEY, part, part) is None
        assert world.link.calls == []

    run_virtual(main())


def test_a_patch_with_a_version_is_refused_once_the_object_has_moved_on() -> None:
    async def main() -> None:
        world = KubeWorld()
        stored = await one_node(world)
        version = str(stored["metadata"]["resourceVersion"])  # type: ignore[index]  # a document
        status = {"status": {"phase": "Ready"}}
        await patch_difference(world.client, UPCOMING_NODES, KEY, {}, status, subresource="status")
        with pytest.raises(ConflictError):
            await patch_difference(
                world.client,
                UPCOMING_NODES,
                KEY,
                {},
                {"status": {"phase": "Failed"}},
                subresource="status",
                resource_version=version,
            )

    run_virtual(main())


def test_a_conflict_is_tried_five_times_within_an_instant() -> None:
    async def main() -> None:
        world = KubeWorld()
        await one_node(world)
        world.link.add(Fault(CONFLICT, times=100))

        async def attempt() -> object:
            return await world.client.get(UPCOMING_NODES, KEY)

        with pytest.raises(ConflictError):
            await retry_on_conflict(attempt, clock=world.clock, stream=world.rng.stream("writes"))
        assert len(world.link.calls) == 5
        assert monotonic_s(world.clock) < 0.05

    run_virtual(main())


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(CONFLICT, times=12), id="a storm of conflicts"),
        pytest.param(Fault(Answer(500, "oops"), times=9), id="500 for a while"),
        pytest.param(Fault(Answer(429, "busy", {"Retry-After": "2"}), times=4), id="busy"),
        pytest.param(Fault(Trouble.BREAK, times=6), id="unreachable"),
    ],
)
def test_a_write_lands_once_the_trouble_has_passed(fault: Fault) -> None:
    async def main() -> None:
        world = KubeWorld()
        await one_node(world)
        world.link.add(fault)
        waits: list[float] = []

        async def attempt() -> object:
            return await world.client.merge_patch(UPCOMING_NODES, KEY, {"spec": {"labels": {"c": "3"}}})

        landed = await until_landed(
            attempt,
            clock=world.clock,
            stream=world.rng.stream("writes"),
            on_failure=lambda _error, wait_s: waits.append(wait_s),
        )
        assert landed is not None
        assert world.api.objects.of(UPCOMING_NODES)[KEY]["spec"]["labels"]["c"] == "3"
        assert waits
        assert max(waits) <= 12.0

    run_virtual(main())


def test_a_refusal_that_waiting_does_not_heal_is_raised() -> None:
    async def main() -> None:
        world = KubeWorld()
        world.link.add(Fault(Answer(403, {"code": 403}), times=100))

        async def attempt() -> object:
            return await world.client.get(UPCOMING_NODES, KEY)

        with pytest.raises(ForbiddenError):
            await until_landed(attempt, clock=world.clock, stream=world.rng.stream("writes"))
        assert len(world.link.calls) == 1

    run_virtual(main())


def test_a_write_that_has_become_stale_is_given_up() -> None:
    async def main() -> None:
        world = KubeWorld()
        world.link.add(Fault(Trouble.BREAK, times=10_000))
        stale = False

        async def attempt() -> object:
            return await world.client.get(UPCOMING_NODES, KEY)

        landing = asyncio.ensure_future(
            until_landed(
                attempt, clock=world.clock, stream=world.rng.stream("writes"), is_stale=lambda: stale
            )
        )
        await world.clock.sleep(60)
        assert not landing.done()
        stale = True
        assert await landing is None

    run_virtual(main())


def test_an_answer_that_was_lost_is_unreachable_and_the_write_is_there() -> None:
    async def main() -> None:
        world = KubeWorld()
        await one_node(world)
        world.link.add(Fault(Trouble.LOSE_ANSWER))
        with pytest.raises(UnreachableError):
            await world.client.merge_patch(UPCOMING_NODES, KEY, {"spec": {"labels": {"c": "3"}}})
        assert world.api.objects.of(UPCOMING_NODES)[KEY]["spec"]["labels"]["c"] == "3"

    run_virtual(main())


def test_a_refusal_can_be_waited_out_where_the_caller_says_so() -> None:
    async def main() -> None:
        world = KubeWorld()
        await one_node(world)
        refused = Answer(403, {"code": 403, "reason": "Forbidden", "message": "not yet"})
        world.link.add(Fault(refused, times=3, method="PATCH"))
        tries: list[float] = []

        async def attempt() -> bool:
            await world.client.merge_patch(UPCOMING_NODES, KEY, {"spec": {"labels": {"c": "3"}}})
            return True

        landed = await until_landed(
            attempt,
            clock=world.clock,
            stream=world.rng.stream("x"),
            on_failure=lambda _error, wait_s: tries.append(wait_s),
            also=(ForbiddenError,),
        )
        assert landed
        assert len(tries) == 3

    run_virtual(main())
