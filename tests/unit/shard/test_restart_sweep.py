"""Kill -9 at every await point of the execute path, against synchronous and asynchronous providers (`shard#failures`).

A run walks machines through all four actions: one is taken from Idle, one is bought, one is given back and released. A
point is one turn of the event loop during which an action is under way; between two of them nothing can happen, so these
are all points at which a kill can find the shard: before a step, while it waits for a blob, while a call is on its way,
while its answer is, after it. One run per point is made. In each the process is cut off there, its memory is gone, it
starts again on its disk, and must bring the fleet to where demand wants it: no machine lost, none owned twice, nothing
forgotten that an operator was told of, and a higher epoch.
"""

import asyncio
from collections.abc import Callable

import pytest

from bigfleet.aio.rng import SeededRng
from bigfleet.demo.session_peer import SessionPeer
from bigfleet.demo.virtual_fleet import FAKE_HOST, SHARD_HOST
from bigfleet.model.machine import MachineState
from bigfleet.model.situation import IdleHolds
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.testing.loop import run_virtual, virtual_loop
from tests.support.builders import need
from tests.support.fake_provider import pool
from tests.support.observed_fleet import ObservedFleet

S = MachineState
PROVIDERS = {"synchronous": FakeOptions(sync=True), "asynchronous": FakeOptions()}
POINTS = 120
"""More than a run has; one whose point never comes is a run without a kill."""
NEVER = 10**9
HOLDS = IdleHolds(on_demand_s=20.0)


class Sweep:
    """Counts turns of the event loop with an action under way, and cuts the shard off at one of them."""

    def __init__(self, world: ObservedFleet, at: int) -> None:
        self._world, self._at = world, at
        self.points = 0
        self.cut = asyncio.Event()
        loop = virtual_loop()
        turn: Callable[[], None] = loop._run_once

        def counted() -> None:
            if not self.cut.is_set() and world.run.shard.dispatcher.in_flight:
                self.points += 1
                if self.points == at:
                    # From here on nothing leaves the process and nothing reaches it, as when it is killed.
                    world.network.crash(SHARD_HOST)
                    world.network.partition([SHARD_HOST], [FAKE_HOST])
                    self.cut.set()
            turn()

        loop._run_once = counted  # type: ignore[method-assign]  # the one place that sees every turn


async def walk(world: ObservedFleet, operator: SessionPeer) -> None:
    """Two machines for prod, one of them bought; then the bought one is given back and released."""
    await operator.demand(need(cpu=8))
    await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 2, within_s=600)
    await operator.demand(need(cpu=4))
    await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1, within_s=1500)
    await world.until(lambda: bool(world.fake.calls(rpc="Delete")), within_s=300)
    await world.until(lambda: not world.shard.dispatcher.in_flight)


def bound_for_real(world: ObservedFleet) -> set[str]:
    return {machine.id for machine in world.fake.machines() if machine.cluster == "prod"}


async def killed_at(point: int, fake: FakeOptions) -> int:
    """One run that is killed at a point; returns how many points it saw."""
    async with ObservedFleet((pool("m", 2), pool("idle", 1, state=S.IDLE)), fake, holds=HOLDS) as world:
        sweep = Sweep(world, point)
        operator = await world.operator()
        walking = asyncio.ensure_future(walk(world, operator))
        cut = asyncio.ensure_future(sweep.cut.wait())
        await asyncio.wait([walking, cut], return_when=asyncio.FIRST_COMPLETED)
        cut.cancel()
        if not sweep.cut.is_set():
            await walking
            return sweep.points
        walking.cancel()
        told = set(operator.in_state(S.CONFIGURED))
        await operator.close()
        await world.restart()
        assert world.shard.epoch == 2
        await world.until(lambda: world.shard.reconciler.done_once)
        for machine_id in sorted(told & bound_for_real(world)):
            # An assignment that an operator has received is not lost.
            assert world.machine(machine_id).assigned.fingerprint == need().profile.fingerprint
        again = await world.operator(host="again")
        await again.demand(need(cpu=8))
        await again.until(lambda: len(again.in_state(S.CONFIGURED)) == 2, within_s=1500)
        await world.cycles(3)
        assert sorted(machine.id for machine in world.fake.machines()) == [
            "idle-0",
            "m-0",
            "m-1",
        ]  # none lost
        assert set(world.shard.inventory.bound_to("prod")) == bound_for_real(world)  # none owned twice
        assert len(bound_for_real(world)) == 2
        assert [call for call in world.fake.calls() if call.code == "FAILED_PRECONDITION"] == []
    return sweep.points


CASES = [
    pytest.param(kind, point, id=f"{kind}, point {point}")
    for kind in PROVIDERS
    for point in range(1, POINTS + 1)
]
CHOSEN = SeededRng(20261117).stream("restart sweep").sample(CASES, len(CASES) // 10)


@pytest.mark.parametrize(("kind", "point"), CHOSEN)
def test_killed_at_a_point_drawn_by_a_seed_the_fleet_ends_as_demand_wants(kind: str, point: int) -> None:
    run_virtual(killed_at(point, PROVIDERS[kind]))


@pytest.mark.rule("shard#killed")
@pytest.mark.long
@pytest.mark.parametrize(("kind", "point"), CASES)
def test_killed_at_every_point_the_fleet_ends_as_demand_wants(kind: str, point: int) -> None:
    run_virtual(killed_at(point, PROVIDERS[kind]))


@pytest.mark.parametrize("kind", list(PROVIDERS))
def test_the_sweep_reaches_every_point_of_a_run(kind: str) -> None:
    points = run_virtual(killed_at(NEVER, PROVIDERS[kind]))
    assert 40 <= points < POINTS
