"""A shard, a provider and an operator together on virtual time: from demand to a machine and back."""

import pytest

from bigfleet.model.machine import MachineState
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.testing.loop import run_virtual
from tests.support.builders import need
from tests.support.fake_provider import pool
from tests.support.observed_fleet import ObservedFleet


@pytest.mark.parametrize("sync", [True, False], ids=["synchronous provider", "asynchronous provider"])
def test_demand_becomes_a_configured_machine_and_its_end_an_idle_one(sync: bool) -> None:
    async def story() -> None:
        async with ObservedFleet((pool(count=3),), FakeOptions(sync=sync)) as world:
            operator = await world.operator("prod")
            await operator.demand(need("prod", cpu=4))
            await operator.until(lambda: operator.in_state(MachineState.CONFIGURED) == ["m-0"])
            assert world.real("m-0") is MachineState.CONFIGURED
            assert world.machine("m-0").assigned.fingerprint == need().profile.fingerprint
            await operator.demand()
            await operator.until(lambda: operator.last_state("m-0") is MachineState.IDLE, within_s=1200)
            assert [item.targets[0].machine_id for item in operator.instructions] == ["m-0"]
            await world.until(lambda: world.real("m-0") is MachineState.SPECULATIVE, within_s=1500)

    run_virtual(story())
