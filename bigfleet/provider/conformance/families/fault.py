"""Behaviours B701 to B708: what a provider does when its substrate fails, hangs or comes too late.

Must never: run on an ordinary provider: the clusters named here would be real bindings there.
Rules: providers 2.2 rows 76 to 83, section 6; ADR-0056.
"""

from typing import Final

from bigfleet.provider.conformance.behaviour import Behaviour, Lane, behaviour
from bigfleet.provider.conformance.checks import (
    accepted,
    fail,
    failed_with_reason,
    in_state,
    listed,
    rejected,
    require,
)
from bigfleet.provider.conformance.lab import Lab
from bigfleet.provider.conformance.settings import Profile
from bigfleet.provider.conformance.states import DRAINING, C, F, I, state_name
from bigfleet.v1alpha1 import provider_pb2 as pb

_LABEL: Final = ("conformance.fault/create", "error")
_BEFORE_TIMEOUT_S: Final = 0.5


@behaviour("B701", lane=Lane.FAULT, profiles=(Profile.FAULT,))
async def configure_fails(lab: Lab) -> None:
    """A Configure that fails ends in Failed with a reason.

    1. Walk a machine to I, Configure it for cluster `fault-error`.
    2. FAILED within the transition timeout + 5 s, last_error set; for 300 ms it stays FAILED.
    """
    machine_id = await _configured_for(lab, "fault-error")
    await _failed(lab, machine_id, 5.0)
    await lab.stays(machine_id, F)


@behaviour("B702", lane=Lane.FAULT, profiles=(Profile.FAULT,), bare_metal=False)
async def create_fails(lab: Lab) -> None:
    """A Create that fails ends in Failed with a reason.

    1. Create a slot that bears the label `conformance.fault/create=error`.
    2. FAILED within the transition timeout + 5 s, last_error set; for 300 ms it stays FAILED.
    """
    machine_id = await lab.labelled_slot(*_LABEL)
    accepted(await lab.calls.create(machine_id), "Create")
    await _failed(lab, machine_id, 5.0)
    await lab.stays(machine_id, F)


@behaviour("B703", lane=Lane.FAULT, profiles=(Profile.FAULT,))
async def configure_hangs(lab: Lab) -> None:
    """A Configure that hangs ends in Failed when its time is up.

    1. Walk a machine to I, Configure it for cluster `fault-timeout`.
    2. FAILED within the transition timeout + 3 s, last_error set.
    """
    await _failed(lab, await _configured_for(lab, "fault-timeout"), 3.0)


@behaviour("B704", lane=Lane.FAULT, profiles=(Profile.FAULT,))
async def late_success(lab: Lab) -> None:
    """A success that comes after the timeout changes nothing.

    1. Walk a machine to I, Configure it for cluster `fault-slow-ok`: FAILED when its time is up.
    2. For the transition timeout + 2 s more it stays FAILED, with last_error.
    """
    machine_id = await _configured_for(lab, "fault-slow-ok")
    await _failed(lab, machine_id, 3.0)
    machine = await lab.stays(machine_id, F, lab.timings.transition_timeout_s + 2.0)
    failed_with_reason(machine, "after the late success")


@behaviour("B705", lane=Lane.FAULT, profiles=(Profile.FAULT,))
async def nothing_leads_out_of_failed(lab: Lab) -> None:
    """No call leads out of Failed.

    1. Bring a machine to FAILED by cluster `fault-error`.
    2. Configure it again: rejected, with any code but FAILED_PRECONDITION.
    3. State and last_error are unchanged.
    """
    machine_id = await _configured_for(lab, "fault-error")
    before = await _failed(lab, machine_id, 5.0)
    rejected(await lab.calls.configure(machine_id, lab.cluster()), "Configure of a Failed machine")
    machine = await lab.stays(machine_id, F)
    found = machine.last_error
    require(found == before.last_error, f"last_error is {found!r}, due was {before.last_error!r}")


@behaviour("B706", lane=Lane.FAULT, profiles=(Profile.FAULT,))
async def drain_fails(lab: Lab) -> None:
    """A Drain that fails does not leave the machine in Draining.

    1. Walk a machine to C in cluster `fault-drain-error`, Drain it with grace 0.
    2. FAILED with last_error, or I; no DRAINING afterwards.
    """
    machine_id = await _configured_for(lab, "fault-drain-error")
    await lab.settle(machine_id, C)
    accepted(await lab.calls.drain(machine_id, 0), "Drain")

    def ended(machine: pb.Machine) -> bool:
        return machine.state in (F, I)

    limit_s = lab.timings.transition_timeout_s + 5.0
    machine = await lab.poll(machine_id, limit_s, lab.timings.poll_s, ended)
    require(machine.state != DRAINING, f"{machine_id} is still DRAINING after {limit_s:g} s")
    if machine.state == F:
        failed_with_reason(machine, "after the drain")
    else:
        in_state(machine, I, "after the drain")
    await lab.stays(machine_id, machine.state)


@behaviour("B707", lane=Lane.FAULT, profiles=(Profile.FAULT,))
async def reason_everywhere(lab: Lab) -> None:
    """The reason of a failure is told the same everywhere.

    1. Bring a machine to FAILED by cluster `fault-error`.
    2. Three Gets and a List of state FAILED: the same last_error.
    """
    machine_id = await _configured_for(lab, "fault-error")
    due = (await _failed(lab, machine_id, 5.0)).last_error
    told = [(await lab.get(machine_id)).last_error for _ in range(3)]
    listing = listed(await lab.calls.list([F]), "List of Failed machines")
    told += [machine.last_error for machine in listing.machines if machine.id == machine_id]
    require(len(told) == 4, f"List of Failed machines lacks {machine_id}")
    for found in told:
        require(found == due, f"last_error is {found!r} in one place, {due!r} in another")


@behaviour("B708", lane=Lane.FAULT, profiles=(Profile.FAULT,))
async def never_ready(lab: Lab) -> None:
    """A node that never gets Ready is never Configured.

    1. Walk a machine to I, Configure it for cluster `fault-readiness-block`.
    2. Until 0.5 s before the transition timeout it is never C.
    3. Then FAILED with last_error.
    """
    machine_id = await _configured_for(lab, "fault-readiness-block")

    def look(machine: pb.Machine) -> bool:
        if machine.state == C:
            fail(f"{machine_id} is Configured although its node never got Ready")
        return False

    window_s = max(lab.timings.transition_timeout_s - _BEFORE_TIMEOUT_S, 0.0)
    await lab.poll(machine_id, window_s, lab.timings.poll_s, look)
    await _failed(lab, machine_id, 3.0)


async def _configured_for(lab: Lab, trigger: str) -> str:
    machine_id = await lab.idle()
    accepted(await lab.calls.configure(machine_id, trigger), f"Configure for cluster {trigger}")
    return machine_id


async def _failed(lab: Lab, machine_id: str, more_s: float) -> pb.Machine:
    limit_s = lab.timings.transition_timeout_s + more_s

    def ended(machine: pb.Machine) -> bool:
        return machine.state in (F, C)

    machine = await lab.poll(machine_id, limit_s, lab.timings.poll_s, ended)
    require(
        machine.state == F,
        f"{machine_id} is {state_name(machine.state)} after {limit_s:g} s, due was FAILED",
    )
    failed_with_reason(machine, "after the failure")
    return machine


FAULT: Final[tuple[Behaviour, ...]] = (
    configure_fails,
    create_fails,
    configure_hangs,
    late_success,
    nothing_leads_out_of_failed,
    drain_fails,
    reason_everywhere,
    never_ready,
)
