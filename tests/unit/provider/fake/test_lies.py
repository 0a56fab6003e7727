"""Every lie shows while it is on, and `honest` turns it off (`providers#lies`)."""

import math
from collections.abc import Awaitable, Callable

import pytest

from bigfleet.aio.net import Code
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.fake.lies.records import ALIEN, LEAK_LABEL, SHARED_HOST
from bigfleet.provider.fake.lies.registry import LIES
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.specs import parse_latencies
from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.testing.loop import run_virtual
from bigfleet.v1alpha1 import provider_pb2 as pb
from tests.support.fake_provider import MemoryState, VirtualFake, bound, code_of, pool

POOLS = (pool("m", 20), pool("host", 4, state=S.IDLE), bound("bound", 4))
SLOW = FakeOptions(
    latencies=parse_latencies(["create=5s", "configure=5s", "ready=5s", "drain=5s", "delete=5s"])
)

Seen = Callable[[VirtualFake], Awaitable[bool]]
"""Returns whether the lie shows; each must show while it is on, and not before or after."""


def state(machine: pb.Machine) -> int:
    return int(machine.state)


async def shown(world: VirtualFake, machine_id: str) -> pb.Machine:
    """Return a machine as a listing has it."""
    return next(machine for machine in (await world.client.list()).machines if machine.id == machine_id)


async def ack_early(world: VirtualFake) -> bool:
    ack = await world.client.configure("host-0", "c")
    early = state(ack.machine) == S.CONFIGURED and state(await world.client.get("host-0")) == S.CONFIGURING
    await world.settled("host-0")
    await world.client.drain("host-0")
    await world.settled("host-0")
    return early


async def drop_list(world: VirtualFake) -> bool:
    return len((await world.client.list()).machines) < len(world.fake.machines())


async def dup_list(world: VirtualFake) -> bool:
    ids = [machine.id for machine in (await world.client.list()).machines]
    return len(ids) > len(set(ids))


async def empty_list(world: VirtualFake) -> bool:
    return not (await world.client.list()).machines


async def stale_list(world: VirtualFake) -> bool:
    machine_id = next(machine.id for machine in world.fake.machines() if machine.state is S.SPECULATIVE)
    await world.client.create(machine_id)
    await world.settled(machine_id)
    return state(await shown(world, machine_id)) == S.SPECULATIVE


async def nan_price(world: VirtualFake) -> bool:
    return math.isnan((await shown(world, "m-0")).price_per_hour)


async def bad_probability(world: VirtualFake) -> bool:
    return (await shown(world, "m-0")).interruption_probability > 1


async def bound_without_cluster(world: VirtualFake) -> bool:
    return not (await world.client.get("bound-0")).cluster


async def forget_metadata(world: VirtualFake) -> bool:
    return not (await shown(world, "bound-0")).shard_metadata


async def mangle_metadata(world: VirtualFake) -> bool:
    return dict((await shown(world, "bound-0")).shard_metadata) == {"k": "v?"}


async def alien_state(world: VirtualFake) -> bool:
    return state(await shown(world, "m-0")) == ALIEN


async def revision_backwards(world: VirtualFake) -> bool:
    return int((await world.client.list()).revision) > int((await world.client.list()).revision)


async def delta_misses(world: VirtualFake) -> bool:
    since = (await world.client.list()).revision
    ids = [machine.id for machine in world.fake.machines() if machine.state is S.SPECULATIVE][:6]
    for machine_id in ids:
        await world.client.create(machine_id)
    return {machine.id for machine in (await world.client.list(since=since)).machines} < set(ids)


async def idle_bump(world: VirtualFake) -> bool:
    first = await world.client.list()
    second = await world.client.list(since=first.revision)
    assert len(second.machines) <= 1  # the cursor is still understood
    return first.revision != second.revision and len(second.machines) == 1


async def accept_stale(world: VirtualFake) -> bool:
    await code_of(world.client.create("m-1", FencingToken("s", 9, 9)))
    return await code_of(world.client.create("m-1", FencingToken("s", 1, 1))) is Code.OK


async def fence_per_shard(world: VirtualFake) -> bool:
    shard = f"shard-{world.fake.events.called}"  # its marks are its own
    await code_of(world.client.create("m-2", FencingToken(shard, 1, 100)))
    return await code_of(world.client.create("m-3", FencingToken(shard, 1, 50))) is Code.FAILED_PRECONDITION


async def fence_all(world: VirtualFake) -> bool:
    return await code_of(world.client.create("m-4")) is Code.FAILED_PRECONDITION


async def fence_reads(world: VirtualFake) -> bool:
    codes = [await code_of(world.client.get("m-0")), await code_of(world.client.list())]
    return codes == [Code.FAILED_PRECONDITION] * 2


async def fp_for_position(world: VirtualFake) -> bool:
    return await code_of(world.client.drain("m-0")) is Code.FAILED_PRECONDITION


async def new_id_each_time(world: VirtualFake) -> bool:
    first = await world.client.configure("bound-1", "prod")
    return first.operation_id != (await world.client.configure("bound-1", "prod")).operation_id


async def reuse_id(world: VirtualFake) -> bool:
    first = (await world.client.configure("bound-1", "prod")).operation_id
    await world.fake.restart()
    other = (await world.client.configure("bound-2", "prod")).operation_id
    return first == other


async def early_configured(world: VirtualFake) -> bool:
    await world.client.configure("host-1", "c")
    await world.pass_time(6)
    early = state(await world.client.get("host-1")) == S.CONFIGURED
    await world.settled("host-1")
    await world.client.drain("host-1")
    await world.settled("host-1")
    return early


async def drain_reverts(world: VirtualFake) -> bool:
    machine_id = next(machine.id for machine in world.fake.machines() if machine.state is S.CONFIGURED)
    await world.client.drain(machine_id)
    await world.settled(machine_id)
    machine = await world.client.get(machine_id)
    return (state(machine), machine.cluster) == (S.CONFIGURED, "prod")


async def stuck(world: VirtualFake) -> bool:
    machine_id = next(machine.id for machine in world.fake.machines() if machine.state is S.SPECULATIVE)
    await world.client.create(machine_id)
    await world.pass_time(100)
    return state(await world.client.get(machine_id)) == state(await shown(world, machine_id)) == S.CREATING


async def two_hosts(world: VirtualFake) -> bool:
    hosts = [(await world.client.get(machine_id)).host.ref for machine_id in ("host-2", "bound-3")]
    return hosts == [SHARED_HOST] * 2


async def host_early(world: VirtualFake) -> bool:
    machine_id = next(machine.id for machine in world.fake.machines() if machine.state is S.SPECULATIVE)
    await world.client.create(machine_id)
    return (await world.client.get(machine_id)).HasField("host")


async def late_cluster(world: VirtualFake) -> bool:
    machine_id = next(machine.id for machine in world.fake.machines() if machine.state is S.IDLE)
    await world.client.configure(machine_id, "c", metadata={"a": "b"})
    machine = await world.client.get(machine_id)
    await world.settled(machine_id)
    assert (await world.client.get(machine_id)).cluster == "c"
    return not machine.cluster and not machine.shard_metadata


async def implicit_create(world: VirtualFake) -> bool:
    ghost = f"ghost-{world.fake.events.called}"
    made = await code_of(world.client.create(ghost, FencingToken("s", 1, 1))) is Code.OK
    assert made == (world.fake.kit.machine(ghost) is not None)
    return made


async def leak_blob(world: VirtualFake) -> bool:
    machine_id = next(machine.id for machine in world.fake.machines() if machine.state is S.IDLE)
    await world.client.configure(machine_id, "c", blob=b"top secret")
    return (await shown(world, machine_id)).labels.get(LEAK_LABEL) == "top secret"


SIGHTS: dict[str, Seen] = {
    sight.__name__.replace("_", "-"): sight
    for sight in (
        ack_early,
        drop_list,
        dup_list,
        empty_list,
        stale_list,
        nan_price,
        bad_probability,
        bound_without_cluster,
        forget_metadata,
        mangle_metadata,
        alien_state,
        revision_backwards,
        delta_misses,
        idle_bump,
        accept_stale,
        fence_per_shard,
        fence_all,
        fence_reads,
        fp_for_position,
        new_id_each_time,
        reuse_id,
        early_configured,
        drain_reverts,
        stuck,
        two_hosts,
        host_early,
        late_cluster,
        implicit_create,
        leak_blob,
    )
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_shows_while_it_is_on_and_not_before_or_after(name: str) -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, SLOW, state=MemoryState()) as world:
            assert not await SIGHTS[name](world)
            world.fake.lie(name, 0.5 if name in ("drop-list", "dup-list") else None)
            assert await SIGHTS[name](world)
            world.fake.honest(name)
            assert not await SIGHTS[name](world)

    run_virtual(scene())


@pytest.mark.parametrize("name", LIES)
def test_a_lie_leaves_the_truth_as_it_is(name: str) -> None:
    """Whatever is said, the provider below keeps every rule of a record's state."""

    async def scene() -> None:
        options = FakeOptions(latencies=SLOW.latencies, lies={name: LIES[name].usual})
        async with VirtualFake(POOLS, options, state=MemoryState()) as world:
            for call in (
                world.client.create("m-0"),
                world.client.configure("host-0", "c", blob=b"b", metadata={"a": "b"}),
                world.client.drain("bound-0"),
                world.client.delete("host-1"),
                world.client.get("m-0"),
                world.client.list(),
            ):
                await code_of(call)
            await world.pass_time(60)
            for machine in world.fake.machines():
                assert bool(machine.host) == (machine.state is not S.SPECULATIVE)
                assert bool(machine.cluster) == (machine.state is S.CONFIGURED)
                assert machine.state in (S.SPECULATIVE, S.IDLE, S.CONFIGURED)

    run_virtual(scene())


def test_lies_can_be_combined_and_all_end_at_once() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, SLOW) as world:
            for name in ("nan-price", "drop-list", "idle-bump"):
                world.fake.lie(name)
            listing = await world.client.list()
            assert all(math.isnan(machine.price_per_hour) for machine in listing.machines)
            assert len(listing.machines) < len(world.fake.machines())
            world.fake.honest()
            assert not world.fake.active_lies.shares
            assert len((await world.client.list()).machines) == len(world.fake.machines())

    run_virtual(scene())


def test_a_share_below_one_lies_about_some_and_not_about_others() -> None:
    async def scene() -> None:
        async with VirtualFake((pool("m", 400),)) as world:
            world.fake.lie("nan-price", 0.25)
            prices = [machine.price_per_hour for machine in (await world.client.list()).machines]
            lied = sum(map(math.isnan, prices))
            assert 60 < lied < 140

    run_virtual(scene())
