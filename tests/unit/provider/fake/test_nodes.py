"""Nodes that a test creates and empties: joins, drains, and the reports of a test.

Rules: `testing#node-join`, `testing#drain-until-empty`; ADR-0100.
"""

from base64 import b64decode

import pytest

from bigfleet.model.machine import MachineState as S
from bigfleet.provider.errors import NoSuchMachineError
from bigfleet.provider.fake.control import VERBS
from bigfleet.provider.fake.nodes import JoiningNode
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.specs import parse_latencies
from bigfleet.provider.kit.core.values import MachineRecord
from bigfleet.testing.loop import run_virtual
from tests.support.fake_provider import VirtualFake, bound, pool

POOLS = (pool("host", 4, state=S.IDLE), bound("bound", 4))
JOINS = FakeOptions(configure_until_joined=True)
SECRET = b"join with token 7f3a"


def test_a_machine_is_configured_only_once_its_node_was_reported_as_joined() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, JOINS) as world:
            await world.client.configure("host-0", "prod", blob=SECRET)
            await world.pass_time(200)
            assert world.machine("host-0").state is S.CONFIGURING
            assert world.fake.joined("host-0")
            assert await world.settled("host-0") is S.CONFIGURED
            assert world.fake.joining() == []
            assert not world.fake.joined("host-0"), "the machine does not wait any more"

    run_virtual(scene())


def test_a_report_that_a_node_joined_takes_effect_at_once() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, JOINS) as world:
            await world.client.configure("host-0", "prod")
            await world.pass_time(100.1)
            world.fake.joined("host-0")
            await world.pass_time(0.01)
            assert world.machine("host-0").state is S.CONFIGURED

    run_virtual(scene())


def test_a_fake_that_lies_about_readiness_waits_for_no_node() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, JOINS) as world:
            world.fake.lie("early-configured")
            await world.client.configure("host-0", "prod")
            assert await world.settled("host-0") is S.CONFIGURED

    run_virtual(scene())


def test_a_test_learns_which_machines_were_configured_with_cluster_and_blob() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, JOINS) as world:
            ack = await world.client.configure("host-1", "prod", blob=SECRET)
            await world.client.configure("host-0", "lab", blob=b"other")
            await world.pass_time(0)
            seen = [(one.machine.id, one.cluster, one.blob) for one in world.fake.joining()]
            assert seen == [("host-1", "prod", SECRET), ("host-0", "lab", b"other")]
            (first,) = world.fake.joining("prod")
            assert (first.operation_id, first.machine.host) == (
                ack.operation_id,
                world.machine("host-1").host,
            )

    run_virtual(scene())


def test_the_control_shows_and_takes_the_same() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, JOINS) as world:
            await world.client.configure("host-0", "prod", blob=SECRET)
            await world.pass_time(0)
            answer = await VERBS["joining"](world.fake, {"cluster": "prod"})
            assert isinstance(answer, list)
            (reported,) = answer
            assert (reported["id"], reported["state"], reported["cluster"]) == (
                "host-0",
                "Configuring",
                "prod",
            )
            assert b64decode(reported["blob"]) == SECRET
            assert await VERBS["joined"](world.fake, {"id": "host-0"}) == {"joined": True}
            assert await world.settled("host-0") is S.CONFIGURED
            assert await VERBS["joined"](world.fake, {"id": "host-0"}) == {"joined": False}

    run_virtual(scene())


def test_a_node_that_never_joins_leaves_its_machine_failed_at_the_timeout() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, JOINS) as world:
            await world.client.configure("host-0", "prod")
            await world.pass_time(301)
            assert world.machine("host-0").state is S.FAILED
            assert "timed out" in world.machine("host-0").last_error
            assert world.fake.joining() == []

    run_virtual(scene())


def test_waits_of_configure_come_before_the_join_and_those_of_ready_after_it() -> None:
    async def scene() -> None:
        options = FakeOptions(
            configure_until_joined=True, latencies=parse_latencies(["configure=10s", "ready=5s"])
        )
        async with VirtualFake(POOLS, options) as world:
            await world.client.configure("host-0", "prod")
            await world.pass_time(9)
            assert world.fake.joining() == [], "the host has no blob yet"
            await world.pass_time(2)
            assert world.fake.joined("host-0")
            await world.pass_time(4)
            assert world.machine("host-0").state is S.CONFIGURING
            await world.pass_time(2)
            assert world.machine("host-0").state is S.CONFIGURED

    run_virtual(scene())


def test_a_callable_can_be_the_kubelet() -> None:
    async def scene() -> None:
        asked: list[tuple[str, str, bytes]] = []

        async def joined(joining: JoiningNode) -> bool:
            asked.append((joining.machine.id, joining.cluster, joining.blob))
            return len(asked) == 3  # the node is made at the first question and Ready at the third

        async with VirtualFake(POOLS, node_joined=joined) as world:
            await world.client.configure("host-0", "prod", blob=SECRET)
            assert await world.settled("host-0") is S.CONFIGURED
            assert asked == [("host-0", "prod", SECRET)] * 3

    run_virtual(scene())


def test_a_restart_forgets_who_was_joining() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, JOINS) as world:
            await world.client.configure("host-0", "prod")
            await world.pass_time(0)
            await world.fake.restart()
            assert world.fake.joining() == []
            await world.client.configure("host-0", "prod")
            await world.pass_time(0)
            assert [one.machine.id for one in world.fake.joining()] == ["host-0"]

    run_virtual(scene())


@pytest.mark.rule("providers#blob-secret")
def test_the_blob_is_in_no_log_and_no_answer_while_it_waits_for_the_node() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, JOINS) as world:
            ack = await world.client.configure("host-0", "prod", blob=SECRET)
            await world.pass_time(1)
            record = await world.client.get("host-0")
            seen = [world.fake.log(), str(world.fake.stats()), str(world.fake.calls()), str(ack), str(record)]
            seen += [repr(world.fake.joining()), world.errors, str(await world.client.list())]
            assert not [text for text in seen if SECRET.decode() in text]

    run_virtual(scene())


@pytest.mark.parametrize("verb", ["joined", "emptied"])
def test_news_of_a_machine_that_does_not_exist_are_refused(verb: str) -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, JOINS) as world:
            with pytest.raises(NoSuchMachineError, match=f"{verb} nobody: no such machine"):
                await VERBS[verb](world.fake, {"id": "nobody"})

    run_virtual(scene())


def test_what_was_said_of_a_node_counts_for_one_binding_only() -> None:
    async def scene() -> None:
        options = FakeOptions(configure_until_joined=True, drain_until_empty=True)
        async with VirtualFake(POOLS, options) as world:
            world.fake.emptied("bound-0")  # before the drain begins
            await world.client.drain("bound-0", grace_s=600)
            assert await world.settled("bound-0") is S.IDLE
            await world.client.configure("bound-0", "prod")
            await world.pass_time(0)
            world.fake.joined("bound-0")
            assert await world.settled("bound-0") is S.CONFIGURED
            await world.client.drain("bound-0", grace_s=600)
            await world.pass_time(100)
            assert world.machine("bound-0").state is S.DRAINING
            world.fake.emptied("bound-0")
            assert await world.settled("bound-0") is S.IDLE
            await world.client.configure("bound-0", "prod")
            await world.pass_time(100)
            assert world.machine("bound-0").state is S.CONFIGURING

    run_virtual(scene())


def test_a_drain_lasts_until_the_node_is_empty() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, FakeOptions(drain_until_empty=True)) as world:
            await world.client.drain("bound-0", grace_s=600)
            await world.pass_time(100)
            assert world.machine("bound-0").state is S.DRAINING
            world.fake.emptied("bound-0")
            assert await world.settled("bound-0") is S.IDLE
            assert '"by":"empty"' in world.fake.log()

    run_virtual(scene())


def test_a_drain_is_forced_when_the_grace_ends() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, FakeOptions(drain_until_empty=True)) as world:
            await world.client.drain("bound-0", grace_s=30)
            await world.pass_time(29)
            assert world.machine("bound-0").state is S.DRAINING
            await world.pass_time(2)
            assert world.machine("bound-0").state is S.IDLE
            assert '"by":"grace"' in world.fake.log()

    run_virtual(scene())


def test_a_callable_can_say_whether_the_node_is_empty() -> None:
    async def scene() -> None:
        pods = {"bound-0": 3}

        async def empty(machine: MachineRecord) -> bool:
            return not pods.get(machine.id)

        async with VirtualFake(POOLS, node_empty=empty) as world:
            await world.client.drain("bound-0", grace_s=600)
            await world.client.drain("bound-1", grace_s=600)
            assert await world.settled("bound-1") is S.IDLE
            await world.pass_time(60)
            assert world.machine("bound-0").state is S.DRAINING
            pods["bound-0"] = 0
            await world.pass_time(1)
            assert world.machine("bound-0").state is S.IDLE

    run_virtual(scene())
