"""Behaviours B1001 to B1007: what a provider still knows after it was killed.

Each runs on a process of its own, started with a state file and 64 slots, killed by SIGKILL, and started again on
another port with the same file.
Must never: kill anything but the process that the kit started.
Rules: providers 1.5 to 1.7, 2.2 rows 100 to 106, 2.3.
"""

from typing import Final

from bigfleet.provider.conformance.behaviour import Behaviour, Lane, Need, behaviour
from bigfleet.provider.conformance.calls import Token
from bigfleet.provider.conformance.checks import (
    accepted,
    bound_to,
    carries,
    failed_with_reason,
    fenced,
    operation,
    require,
)
from bigfleet.provider.conformance.lab import Lab
from bigfleet.provider.conformance.settings import Profile
from bigfleet.provider.conformance.states import CONFIGURING, C, state_name
from bigfleet.v1alpha1 import provider_pb2 as pb

_CLUSTER: Final = "durable-cluster"


@behaviour("B1001", lane=Lane.DURABLE, profiles=(Profile.DURABLE,), needs=(Need.START,))
async def marks_survive(lab: Lab) -> None:
    """Marks survive a kill.

    1. Shard durA Creates a slot with (3,7): OK.
    2. Kill and restart; the same token: FAILED_PRECONDITION.
    """
    probe = await lab.fence_probe()
    accepted(await probe(lab.shard("durA"), 3, 7), "(3,7) before the kill")
    await lab.settle(probe.machine_id, lab.moved)
    await lab.restart()
    fenced(await probe(lab.shard("durA"), 3, 7), "(3,7) after the restart")


@behaviour("B1002", lane=Lane.DURABLE, profiles=(Profile.DURABLE,), needs=(Need.START,))
async def ids_survive(lab: Lab) -> None:
    """Operation ids survive a kill.

    1. Walk a machine to C, noting the id of its Configure.
    2. Kill and restart; Configure again: the same id.
    """
    machine_id = await lab.idle()
    before = operation(await lab.calls.configure(machine_id, lab.cluster()), "Configure")
    await lab.settle(machine_id, C)
    await lab.restart()
    after = operation(await lab.calls.configure(machine_id, lab.cluster()), "Configure after the restart")
    require(after == before, f"after the restart the operation_id is {after!r}, due was {before!r}")


@behaviour("B1003", lane=Lane.DURABLE, profiles=(Profile.DURABLE,), needs=(Need.START,))
async def bindings_survive(lab: Lab) -> None:
    """Bindings survive a kill.

    1. Walk a machine to C in `durable-cluster` with a map of two entries.
    2. Kill and restart; Get: cluster and map are still there.
    """
    metadata = {"bigfleet.lucy.sh/owner-shard": "durA", "note": "kept\x00whole"}
    machine_id = await lab.configured(_CLUSTER, metadata)
    await lab.restart()
    machine = await lab.get(machine_id)
    bound_to(machine, _CLUSTER, "after the restart")
    carries(machine, metadata, "after the restart")


@behaviour("B1004", lane=Lane.DURABLE, profiles=(Profile.DURABLE,), needs=(Need.START,))
async def states_survive(lab: Lab) -> None:
    """Every machine is in the state in which it was.

    1. Bring machines to I and to C.
    2. Kill and restart: the same ids in the same states.
    """
    await lab.idles(2)
    await lab.configured()
    before = {machine.id: machine.state for machine in (await lab.all()).machines}
    await lab.restart()
    after = {machine.id: machine.state for machine in (await lab.all()).machines}
    lost, gained = sorted(set(before) - set(after)), sorted(set(after) - set(before))
    require(not lost and not gained, f"after the restart {len(lost)} ids are lost, {len(gained)} are new")
    moved = [key for key in sorted(before) if before[key] != after[key]]
    told = ", ".join(f"{key} {state_name(before[key])} -> {state_name(after[key])}" for key in moved[:3])
    require(not moved, f"after the restart {len(moved)} machines are in another state: {told}")


@behaviour("B1005", lane=Lane.DURABLE, profiles=(Profile.DURABLE,), needs=(Need.START,))
async def ids_are_not_reused(lab: Lab) -> None:
    """Operation ids are not used twice, and the revision goes on.

    1. Walk three machines to I and one of them to C, noting every id.
    2. Kill and restart. List: the revision is not empty. Create an unused slot: an id not seen before.
    """
    seen = []
    machine_ids = await lab.movables(3)
    for machine_id in machine_ids:
        seen.append(operation(await lab.move(machine_id), "before the kill"))
        await lab.settle(machine_id, lab.moved)
    if not lab.bare_metal:
        seen.append(operation(await lab.calls.configure(machine_ids[0], lab.cluster()), "Configure"))
        await lab.settle(machine_ids[0], C)
    await lab.restart()
    require(bool((await lab.all()).revision), "after the restart the revision is empty")
    (fresh,) = await lab.movables(1)
    again = operation(await lab.move(fresh), "after the restart")
    require(again not in seen, f"after the restart the id {again!r} is used a second time")


@behaviour("B1006", lane=Lane.DURABLE, profiles=(Profile.DURABLE,))
async def interrupted(lab: Lab) -> None:
    """A transition that a kill cut short ends in Failed.

    1. On a provider that follows the fault convention with a timeout of 30 s: Configure a machine for cluster
       `fault-timeout`, CONFIGURING.
    2. Kill and restart: FAILED with last_error.
    """
    machine_id = await lab.idle()
    accepted(await lab.calls.configure(machine_id, "fault-timeout"), "Configure for cluster fault-timeout")
    await lab.settle(machine_id, CONFIGURING)
    await lab.restart()

    def ended(machine: pb.Machine) -> bool:
        return machine.state != CONFIGURING

    machine = await lab.poll(machine_id, lab.timings.settle_s, lab.timings.poll_s, ended)
    failed_with_reason(machine, "after the restart")


@behaviour("B1007", lane=Lane.DURABLE, profiles=(Profile.DURABLE,), needs=(Need.START,))
async def new_shards_are_welcome(lab: Lab) -> None:
    """After a restart a shard that never called is first contact.

    1. Shard durA Creates a slot with (3,7). Kill and restart.
    2. Shard durB Creates a fresh slot with (1,1): OK.
    """
    before = await lab.fence_probe()
    accepted(await before(lab.shard("durA"), 3, 7), "durA before the kill")
    await lab.settle(before.machine_id, lab.moved)
    await lab.restart()
    (fresh,) = await lab.movables(1)
    accepted(await lab.move(fresh, Token(lab.shard("durB"), 1, 1)), "durB after the restart")


DURABLE: Final[tuple[Behaviour, ...]] = (
    marks_survive,
    ids_survive,
    bindings_survive,
    states_survive,
    ids_are_not_reused,
    interrupted,
    new_shards_are_welcome,
)
