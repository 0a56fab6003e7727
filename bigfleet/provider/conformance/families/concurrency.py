"""Behaviours B401 to B409: many calls at once.

Must never: judge by the order of answers; which of two calls wins is the provider's affair.
Rules: `providers#critical-section`, `providers#family-concurrency`.
"""

import asyncio
from typing import Final

from bigfleet.provider.conformance.behaviour import Behaviour, Prerequisite, behaviour
from bigfleet.provider.conformance.caller import MutationReply
from bigfleet.provider.conformance.checks import (
    accepted,
    bound_to,
    carries,
    fail,
    fenced,
    in_state,
    listed,
    operation,
    rejected,
    require,
    same_operation,
    unbound,
)
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.settings import ConformanceProfile
from bigfleet.provider.conformance.states import CONFIGURING, TRANSITIONAL, C, F, I, S, State, state_name
from bigfleet.v1alpha1 import provider_pb2 as pb

_MANY_S: Final = 30.0


@behaviour("B401", bare_metal=False)
async def parallel_creates(context: BehaviourContext) -> None:
    """Sixteen Creates at once are one operation.

    1. Create one slot by 16 calls at once: those that succeed share one id, none is fenced.
    2. I, and listed once among the Idle ones.
    """
    machine_id = await context.slot()
    acks = await asyncio.gather(
        *(context.calls.create(machine_id) for _ in range(context.settings.sizes.burst))
    )
    same_operation(acks, "parallel Creates")
    await context.settle(machine_id, I)
    await _listed_once(context, machine_id, I)


@behaviour("B402")
async def parallel_configures(context: BehaviourContext) -> None:
    """Sixteen Configures at once are one operation.

    1. Walk a machine to I, Configure it by 16 calls at once: those that succeed share one id, none is fenced.
    2. C, listed once, cluster and map as sent.
    """
    machine_id, metadata = await context.idle(), {"one": "1", "two": "2"}
    same_operation(await _configures(context, machine_id, metadata), "parallel Configures")
    machine = await context.settle(machine_id, C)
    bound_to(machine, context.cluster(), "after parallel Configures")
    carries(machine, metadata, "after parallel Configures")
    await _listed_once(context, machine_id, C)


@behaviour("B403")
async def parallel_drains(context: BehaviourContext) -> None:
    """Sixteen Drains at once are one operation.

    1. Walk a machine to C, Drain it with grace 0 by 16 calls at once: those that succeed share one id, none is fenced.
    2. I, listed once, cluster and map empty.
    """
    machine_id = await context.configured(metadata={"one": "1"})
    acks = await asyncio.gather(
        *(context.calls.drain(machine_id, 0) for _ in range(context.settings.sizes.burst))
    )
    same_operation(acks, "parallel Drains")
    unbound(await context.settle(machine_id, I), "after parallel Drains")
    await _listed_once(context, machine_id, I)


@behaviour("B404")
async def configure_against_drain(context: BehaviourContext) -> None:
    """Of Configure and Drain at once one wins, and the machine is whole either way.

    1. Walk a machine to C; Configure it and Drain it with grace 0 at once: the loser is rejected.
    2. It settles at I without cluster or at C with it, and stays there for 300 ms.
    """
    machine_id = await context.configured()
    acks = await asyncio.gather(
        context.calls.configure(machine_id, context.cluster()), context.calls.drain(machine_id, 0)
    )
    for ack, what in zip(acks, ("Configure", "Drain"), strict=True):
        if not ack.ok:
            rejected(ack, f"{what} that lost")

    def at_rest(machine: pb.Machine) -> bool:
        return machine.state not in TRANSITIONAL

    machine = await context.poll(machine_id, context.timings.settle_s, context.timings.poll_s, at_rest)
    if machine.state not in (I, C):
        fail(f"{machine_id} is {state_name(machine.state)} after Configure and Drain at once, due was I or C")
    machine = await context.stays(machine_id, machine.state)
    if machine.state == C:
        bound_to(machine, context.cluster(), "Configure won")
    else:
        unbound(machine, "Drain won")


@behaviour("B405")
async def parallel_epochs(context: BehaviourContext) -> None:
    """Calls of an old and a new epoch at once: the old one never gets through.

    1. Set the mark (1,1000).
    2. At once 12 calls (1,0) to (1,11) and 12 calls (2,100) to (2,111): the first always FAILED_PRECONDITION, the second
       OK or FAILED_PRECONDITION, at least one OK.
    3. (1,9): FAILED_PRECONDITION; (2,9999): OK.
    """
    probe, shard = await context.fence_probe(), context.shard()
    accepted(await probe(shard, 1, 1000), "first contact with (1,1000)")
    old = [probe(shard, 1, number) for number in range(12)]
    new = [probe(shard, 2, 100 + number) for number in range(12)]
    acks = await asyncio.gather(*(call for pair in zip(old, new, strict=True) for call in pair))
    for number, ack in enumerate(acks):
        if number % 2 == 0:
            fenced(ack, f"(1,{number // 2}) among calls of epoch 2")
        elif not ack.ok:
            fenced(ack, f"(2,{100 + number // 2}) among others of its epoch")
    require(any(ack.ok for ack in acks), "not one call of the new epoch was accepted")
    fenced(await probe(shard, 1, 9), "(1,9) afterwards")
    accepted(await probe(shard, 2, 9999), "(2,9999) afterwards")


@behaviour("B406")
async def two_connections(context: BehaviourContext) -> None:
    """Idempotency does not depend on the connection.

    1. Walk a machine to I; 16 Configures at once over two connections: one id.
    2. At C repeat on both connections: the same id.
    """
    machine_id, other = await context.idle(), context.another_connection()
    burst = [
        (context.calls if number % 2 else other).configure(machine_id, context.cluster())
        for number in range(context.settings.sizes.burst)
    ]
    first = same_operation(await asyncio.gather(*burst), "Configures over two connections")
    await context.settle(machine_id, C)
    for calls in (context.calls, other):
        again = operation(await calls.configure(machine_id, context.cluster()), "Configure, repeated")
        require(again == first, f"the repeat has operation_id {again!r}, due was {first!r}")


@behaviour("B407", bare_metal=False)
async def machines_in_parallel(context: BehaviourContext) -> None:
    """Machines created at once do not get into each other's way.

    1. Create 8 slots at once: 8 different ids.
    2. All I within 30 s, without cluster or map.
    """
    await created_in_parallel(context, 8)


@behaviour("B408")
async def acks_of_parallel_configures(context: BehaviourContext) -> None:
    """Every ack of parallel Configures shows the current state of the machine.

    1. Walk a machine to I, Configure it by 16 calls at once: one id.
    2. Each ack shows CONFIGURING or C; those that show C have the cluster.
    """
    machine_id = await context.idle()
    acks = await _configures(context, machine_id, {})
    same_operation(acks, "parallel Configures")
    for ack in (ack for ack in acks if ack.ok):
        found = state_name(ack.machine.state)
        require(ack.machine.state in (CONFIGURING, C), f"an ack shows {found}, allowed is CONFIGURING or C")
        if ack.machine.state == C:
            bound_to(ack.machine, context.cluster(), "ack that shows C")


@behaviour(
    "B409",
    profiles=(ConformanceProfile.CORE, ConformanceProfile.CLOUD),
    needs=(Prerequisite.DELETE,),
    bare_metal=False,
)
async def parallel_deletes(context: BehaviourContext) -> None:
    """Sixteen Deletes at once are one operation.

    1. Walk a machine to I, Delete it by 16 calls at once: those that succeed share one id, none is fenced.
    2. S, listed once.
    """
    machine_id = await context.idle()
    acks = await asyncio.gather(
        *(context.calls.delete(machine_id) for _ in range(context.settings.sizes.burst))
    )
    same_operation(acks, "parallel Deletes")
    await context.settle(machine_id, S)
    await _listed_once(context, machine_id, S)


async def created_in_parallel(context: BehaviourContext, count: int) -> None:
    """Create several slots at once and demand different ids and Idle machines."""
    machine_ids = await context.slots(count)
    acks = await asyncio.gather(*(context.calls.create(machine_id) for machine_id in machine_ids))
    ids = [operation(ack, "one of several Creates at once") for ack in acks]
    require(len(set(ids)) == count, f"{count} machines have {len(set(ids))} different operation ids")
    end_s = context.now_s() + _MANY_S

    def ended(machine: pb.Machine) -> bool:
        return machine.state in (I, F)

    for machine_id in machine_ids:
        left_s = max(end_s - context.now_s(), 0.0)
        machine = await context.poll(machine_id, left_s, context.timings.poll_s, ended)
        in_state(machine, I, f"{_MANY_S:g} s after {count} Creates at once")
        unbound(machine, "after Create")


async def _configures(
    context: BehaviourContext, machine_id: str, metadata: dict[str, str]
) -> list[MutationReply]:
    calls = (
        context.calls.configure(machine_id, context.cluster(), metadata=metadata)
        for _ in range(context.settings.sizes.burst)
    )
    return await asyncio.gather(*calls)


async def _listed_once(context: BehaviourContext, machine_id: str, state: State) -> None:
    listing = listed(await context.calls.list([state]), f"List of {state_name(state)}")
    count = listing.ids.count(machine_id)
    require(count == 1, f"{machine_id} is listed {count} times as {state_name(state)}, due was once")


CONCURRENCY: Final[tuple[Behaviour, ...]] = (
    parallel_creates,
    parallel_configures,
    parallel_drains,
    configure_against_drain,
    parallel_epochs,
    two_connections,
    machines_in_parallel,
    acks_of_parallel_configures,
    parallel_deletes,
)
