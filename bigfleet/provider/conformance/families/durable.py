"""Behaviours B1001 to B1007: what a provider still knows after it was killed.

Each runs on a process of its own, started with a state file and 64 slots, killed by SIGKILL, and started again on
another port with the same file.
Must never: kill anything but the process that the kit started.
Rules: `providers#idempotency-table`, `providers#fence-mark`, `providers#revision`, `providers#family-durable`,
`providers#verdict`.
"""

from typing import Final

from bigfleet.provider.conformance.behaviour import Behaviour, Lane, Prerequisite, behaviour
from bigfleet.provider.conformance.calls import CallToken
from bigfleet.provider.conformance.checks import (
    accepted,
    bound_to,
    carries,
    failed_with_reason,
    fenced,
    operation,
    require,
)
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.settings import ConformanceProfile
from bigfleet.provider.conformance.states import CONFIGURING, C, state_name
from bigfleet.v1alpha1 import provider_pb2 as pb

_CLUSTER: Final = "durable-cluster"


@behaviour("B1001", lane=Lane.DURABLE, profiles=(ConformanceProfile.DURABLE,), needs=(Prerequisite.START,))
async def marks_survive(context: BehaviourContext) -> None:
    """Marks survive a kill.

    1. Shard durA Creates a slot with (3,7): OK.
    2. Kill and restart; the same token: FAILED_PRECONDITION.
    """
    probe = await context.fence_probe()
    accepted(await probe(context.shard("durA"), 3, 7), "(3,7) before the kill")
    await context.settle(probe.machine_id, context.moved)
    await context.restart()
    fenced(await probe(context.shard("durA"), 3, 7), "(3,7) after the restart")


@behaviour("B1002", lane=Lane.DURABLE, profiles=(ConformanceProfile.DURABLE,), needs=(Prerequisite.START,))
async def ids_survive(context: BehaviourContext) -> None:
    """Operation ids survive a kill.

    1. Walk a machine to C, noting the id of its Configure.
    2. Kill and restart; Configure again: the same id.
    """
    machine_id = await context.idle()
    before = operation(await context.calls.configure(machine_id, context.cluster()), "Configure")
    await context.settle(machine_id, C)
    await context.restart()
    after = operation(
        await context.calls.configure(machine_id, context.cluster()), "Configure after the restart"
    )
    require(after == before, f"after the restart the operation_id is {after!r}, due was {before!r}")


@behaviour("B1003", lane=Lane.DURABLE, profiles=(ConformanceProfile.DURABLE,), needs=(Prerequisite.START,))
async def bindings_survive(context: BehaviourContext) -> None:
    """Bindings survive a kill.

    1. Walk a machine to C in `durable-cluster` with a map of two entries.
    2. Kill and restart; Get: cluster and map are still there.
    """
    metadata = {"bigfleet.lucy.sh/owner-shard": "durA", "note": "kept\x00whole"}
    machine_id = await context.configured(_CLUSTER, metadata)
    await context.restart()
    machine = await context.get(machine_id)
    bound_to(machine, _CLUSTER, "after the restart")
    carries(machine, metadata, "after the restart")


@behaviour("B1004", lane=Lane.DURABLE, profiles=(ConformanceProfile.DURABLE,), needs=(Prerequisite.START,))
async def states_survive(context: BehaviourContext) -> None:
    """Every machine is in the state in which it was.

    1. Bring machines to I and to C.
    2. Kill and restart: the same ids in the same states.
    """
    await context.idles(2)
    await context.configured()
    before = {machine.id: machine.state for machine in (await context.all()).machines}
    await context.restart()
    after = {machine.id: machine.state for machine in (await context.all()).machines}
    lost, gained = sorted(set(before) - set(after)), sorted(set(after) - set(before))
    require(not lost and not gained, f"after the restart {len(lost)} ids are lost, {len(gained)} are new")
    moved = [key for key in sorted(before) if before[key] != after[key]]
    texts = ", ".join(f"{key} {state_name(before[key])} -> {state_name(after[key])}" for key in moved[:3])
    require(not moved, f"after the restart {len(moved)} machines are in another state: {texts}")


@behaviour("B1005", lane=Lane.DURABLE, profiles=(ConformanceProfile.DURABLE,), needs=(Prerequisite.START,))
async def ids_are_not_reused(context: BehaviourContext) -> None:
    """Operation ids are not used twice, and the revision goes on.

    1. Walk three machines to I and one of them to C, noting every id.
    2. Kill and restart. List: the revision is not empty. Create an unused slot: an id not seen before.
    """
    seen = []
    machine_ids = await context.movables(3)
    for machine_id in machine_ids:
        seen.append(operation(await context.move(machine_id), "before the kill"))
        await context.settle(machine_id, context.moved)
    if not context.bare_metal:
        seen.append(operation(await context.calls.configure(machine_ids[0], context.cluster()), "Configure"))
        await context.settle(machine_ids[0], C)
    await context.restart()
    require(bool((await context.all()).revision), "after the restart the revision is empty")
    (fresh,) = await context.movables(1)
    again = operation(await context.move(fresh), "after the restart")
    require(again not in seen, f"after the restart the id {again!r} is used a second time")


@behaviour("B1006", lane=Lane.DURABLE, profiles=(ConformanceProfile.DURABLE,))
async def interrupted(context: BehaviourContext) -> None:
    """A transition that a kill cut short ends in Failed.

    1. On a provider that follows the fault convention with a timeout of 30 s: Configure a machine for cluster
       `fault-timeout`, CONFIGURING.
    2. Kill and restart: FAILED with last_error.
    """
    machine_id = await context.idle()
    accepted(
        await context.calls.configure(machine_id, "fault-timeout"), "Configure for cluster fault-timeout"
    )
    await context.settle(machine_id, CONFIGURING)
    await context.restart()

    def ended(machine: pb.Machine) -> bool:
        return machine.state != CONFIGURING

    machine = await context.poll(machine_id, context.timings.settle_s, context.timings.poll_s, ended)
    failed_with_reason(machine, "after the restart")


@behaviour("B1007", lane=Lane.DURABLE, profiles=(ConformanceProfile.DURABLE,), needs=(Prerequisite.START,))
async def new_shards_are_welcome(context: BehaviourContext) -> None:
    """After a restart a shard that never called is first contact.

    1. Shard durA Creates a slot with (3,7). Kill and restart.
    2. Shard durB Creates a fresh slot with (1,1): OK.
    """
    before = await context.fence_probe()
    accepted(await before(context.shard("durA"), 3, 7), "durA before the kill")
    await context.settle(before.machine_id, context.moved)
    await context.restart()
    (fresh,) = await context.movables(1)
    accepted(await context.move(fresh, CallToken(context.shard("durB"), 1, 1)), "durB after the restart")


DURABLE: Final[tuple[Behaviour, ...]] = (
    marks_survive,
    ids_survive,
    bindings_survive,
    states_survive,
    ids_are_not_reused,
    interrupted,
    new_shards_are_welcome,
)
