"""A provider written with nothing but the public names (`providers#backend`)."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from bigfleet import providerkit
from bigfleet.aio.disk import DiskCause, DiskError
from bigfleet.aio.net import Code, RpcError
from bigfleet.provider.kit.frames import DamagedStoreError
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.providerkit import (
    Backend,
    CapacityType,
    CreatedHost,
    Deletes,
    DescribedMachine,
    Journal,
    KnowsReadiness,
    Limits,
    MachineRecord,
    MachineState,
    Op,
    ProviderKit,
    Resumes,
    Watches,
)
from bigfleet.providerkit.testing import Network, VirtualProvider, run_virtual
from bigfleet.testing.disk.image import DiskFault
from bigfleet.testing.process import virtual_process


class Metal:
    """Four coroutines, and no more."""

    async def describe(self) -> AsyncIterator[DescribedMachine]:
        yield DescribedMachine.of(
            "r12u07",
            instance_type="gen11-96c",
            zone="hall-7",
            capacity_type=CapacityType.BARE_METAL,
            resources={"cpu": "96", "memory": "384Gi"},
            labels={"topology.bigfleet/rack": "r12"},
            host="10.7.12.7",
        )

    async def create(self, machine: MachineRecord, op: Op) -> CreatedHost:
        return CreatedHost(machine.id)

    async def configure(self, machine: MachineRecord, cluster: str, blob: bytes, op: Op) -> None:
        op.log.info("configure", cluster=cluster)

    async def drain(self, machine: MachineRecord, grace: timedelta, op: Op) -> None:
        op.log.info("drain", grace_s=grace.total_seconds())


def test_every_public_name_is_there() -> None:
    assert sorted(providerkit.__all__) == list(providerkit.__all__)
    assert all(hasattr(providerkit, name) for name in providerkit.__all__)


def test_abilities_are_found_by_their_methods() -> None:
    metal = Metal()
    assert isinstance(metal, Backend)
    assert not isinstance(metal, Deletes | KnowsReadiness | Resumes | Watches)


def test_four_coroutines_are_a_provider_and_delete_is_not_offered() -> None:
    async def run() -> None:
        async with VirtualProvider(Metal()) as provider:
            await provider.client.configure("r12u07", "prod")
            assert (await provider.settled("r12u07"))[0].state is MachineState.CONFIGURED
            await provider.client.drain("r12u07", grace_s=5)
            assert (await provider.settled("r12u07"))[0].state is MachineState.IDLE
            with pytest.raises(RpcError) as refused:
                await provider.client.delete("r12u07")
            assert refused.value.code is Code.UNIMPLEMENTED
            with pytest.raises(RpcError) as refused:  # never created: a machine of the free pool
                await provider.client.create("r12u07")
            assert refused.value.code is Code.INTERNAL

    run_virtual(run())


def test_serve_ends_with_the_error_of_a_store_that_cannot_be_trusted_any_more() -> None:
    async def run() -> None:
        process, network = virtual_process("provider"), Network()
        kit = ProviderKit(
            Metal(),
            store=Journal("/state", disk=process.disk, clock=process.clock, rng=process.rng),
            name="metal",
            limits=Limits(refresh=0),
            clock=process.clock,
            rng=process.rng,
            ids=process.ids,
            net=network.host("provider"),
        )
        serving = asyncio.ensure_future(kit.serve(":9000"))
        await process.clock.sleep(1)
        process.disk.image.inject(DiskFault("fsync", DiskCause.IO))
        client = RawProviderClient(network.host("shard").dial("provider:9000"))
        with pytest.raises(RpcError) as refused:
            await client.configure("r12u07", "prod")
        assert refused.value.code is Code.UNAVAILABLE
        with pytest.raises(DiskError, match="input/output error"):
            await serving

    run_virtual(run())


def test_serve_does_not_begin_on_a_damaged_store() -> None:
    async def run() -> None:
        process = virtual_process("provider")

        def kit() -> ProviderKit:
            store = Journal("/state", disk=process.disk, clock=process.clock, rng=process.rng)
            return ProviderKit(
                Metal(), store=store, name="metal", clock=process.clock, net=Network().host("provider")
            )

        first = kit()
        await first.start()
        await first.stop()
        process.disk.image.flip_bit("/state/snapshot", 50)
        with pytest.raises(DamagedStoreError):
            await kit().serve(":9000")
        process.disk.image.flip_bit("/state/snapshot", 50)
        again = kit()  # the lock was given back
        await again.start()
        await again.stop()

    run_virtual(run())
