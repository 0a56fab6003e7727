"""What a restart keeps and what it must not do (`shard#metadata`, `shard#restart`, `shard#provider-client`; the rows
"Shard itself" of `shard#failures`)."""

import pytest

from bigfleet.aio.disk import DiskError, atomic_write
from bigfleet.model.buckets import PenaltyBucket
from bigfleet.model.machine import MachineState
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.shard.epoch import EpochError, open_data_directory
from bigfleet.testing.disk.virtual_disk import MemoryDisk
from bigfleet.testing.loop import run_virtual
from bigfleet.wire.metadata import OWNER_SHARD
from tests.support.builders import need
from tests.support.fake_provider import pool
from tests.support.observed_fleet import ObservedFleet

S = MachineState
IDLE = pool("idle", 4, state=S.IDLE, labels={"rack": "r1"})
MUTATING = ("Create", "Configure", "Drain", "Delete")


@pytest.mark.rule("shard#restart", "shard#killed-after-configure")
@pytest.mark.parametrize("sync", [True, False], ids=["synchronous", "asynchronous"])
def test_a_configured_machine_comes_back_with_all_of_its_assignment(sync: bool) -> None:
    profile = Profile(
        requirements=(Requirement("rack", RequirementOperator.SAME),),
        priority=700,
        interruption_bucket=PenaltyBucket(12),
        reclamation_bucket=PenaltyBucket(27),
    )

    async def story() -> None:
        async with ObservedFleet((IDLE,), FakeOptions(sync=sync)) as world:
            operator = await world.operator()
            # Two machines' worth: a gang that fits on one would be folded.
            await operator.demand(need(profile=profile, group="train", cpu=8))
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 2)
            (machine_id, other) = operator.in_state(S.CONFIGURED)
            before = world.machine(machine_id)
            assert before.assigned.priority == 700
            assert before.assigned.group == "train"
            calls = len([call for call in world.fake.calls() if call.rpc in MUTATING])
            await world.restart()
            await world.until(lambda: world.shard.reconciler.done_once)
            after = world.machine(machine_id)
            assert (after.state, after.cluster) == (S.CONFIGURED, "prod")
            assert after.assigned == before.assigned
            assert world.machine(other).assigned == before.assigned
            assert not after.metadata  # decoded, then dropped
            assert world.shard.epoch == 2
            await world.cycles(4)
            assert len([call for call in world.fake.calls() if call.rpc in MUTATING]) == calls

    run_virtual(story())


@pytest.mark.rule("shard#metadata")
def test_every_configure_writes_the_owner() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,), FakeOptions(sync=True), shard_id="shard-7") as world:
            operator = await world.operator()
            await operator.demand(need(cpu=4))
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)
            (record,) = [machine for machine in world.fake.machines() if machine.state is S.CONFIGURED]
            assert record.shard_metadata[OWNER_SHARD] == "shard-7"

    run_virtual(story())


@pytest.mark.rule("shard#killed-in-transition")
@pytest.mark.parametrize("kind", ["create", "configure", "drain"])
def test_a_crash_in_the_middle_comes_back_and_goes_on(kind: str) -> None:
    async def story() -> None:
        async with ObservedFleet((pool("m", 1),)) as world:
            world.fake.hold(kind=kind)
            operator = await world.operator()
            await operator.demand(need(cpu=4))
            if kind == "drain":
                await operator.until(lambda: operator.in_state(S.CONFIGURED) == ["m-0"])
                await operator.demand()
            during = {"create": S.CREATING, "configure": S.CONFIGURING, "drain": S.DRAINING}[kind]
            await world.until(lambda: world.real("m-0") is during and world.state("m-0") is during)
            await operator.close()
            await world.restart()
            await world.until(lambda: world.state("m-0") is during)
            world.fake.release()
            again = await world.operator(host="again")
            await again.demand(*([] if kind == "drain" else [need(cpu=4)]))
            wanted = S.IDLE if kind == "drain" else S.CONFIGURED
            await world.until(lambda: world.real("m-0") is wanted)
            await world.until(lambda: world.state("m-0") is wanted)

    run_virtual(story())


@pytest.mark.rule("shard#two-processes")
def test_two_processes_of_one_identity_the_older_epoch_is_fenced_and_stops_itself() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,), FakeOptions(sync=True)) as world:
            operator = await world.operator()
            await operator.demand(need(cpu=16))
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 4)
            for machine_id in operator.in_state(S.CONFIGURED):
                await world.fake.call("Drain", machine_id, FencingToken("shard-0", 9, 1))
            await world.until(lambda: world.shard.actuation.self_paused)
            assert world.shard.not_ready()

    run_virtual(story())


@pytest.mark.rule("shard#epoch-missing")
def test_the_epoch_rises_with_every_start_and_is_durable() -> None:
    disk = MemoryDisk()
    for epoch in (1, 2, 3):
        data = open_data_directory(disk, "/var/lib/bigfleet")
        assert data.epoch == epoch
        data.close()
    assert disk.read("/var/lib/bigfleet/epoch") == b"3"


def test_one_directory_is_one_processs() -> None:
    disk = MemoryDisk()
    held = open_data_directory(disk, "/data")
    with pytest.raises(DiskError, match="is another shard running on it"):
        open_data_directory(disk, "/data")
    held.close()
    open_data_directory(disk, "/data").close()


@pytest.mark.rule("shard#epoch-corrupt")
@pytest.mark.parametrize("content", [b"", b"seven", b"-1", b"1.5", str(2**63).encode(), b"\xff"])
def test_an_epoch_that_cannot_be_read_is_refused_and_left_as_it_is(content: bytes) -> None:
    disk = MemoryDisk()
    open_data_directory(disk, "/data").close()
    atomic_write(disk, "/data/epoch", content)
    with pytest.raises(EpochError, match="allowed is a decimal number"):
        open_data_directory(disk, "/data")
    assert disk.read("/data/epoch") == content
    atomic_write(disk, "/data/epoch", b"4\n")
    assert open_data_directory(disk, "/data").epoch == 5  # the lock was let go


def test_an_epoch_that_cannot_be_written_is_refused() -> None:
    disk = MemoryDisk()
    open_data_directory(disk, "/data").close()
    disk.image.read_only = True
    with pytest.raises(DiskError, match="read-only"):
        open_data_directory(disk, "/data")
