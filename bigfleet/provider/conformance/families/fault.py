"""Behaviours B701 to B708: what a provider does when its substrate fails, hangs or comes too late.

Must never: run on an ordinary provider: the clusters named here would be real bindings there.
Rules: `providers#family-fault`, `providers#fault-convention`; ADR-0056.
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
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.settings import ConformanceProfile
from bigfleet.provider.conformance.states import DRAINING, C, F, I, state_name
from bigfleet.v1alpha1 import provider_pb2 as pb

_LABEL: Final = ("conformance.fault/create", "error")
_BEFORE_TIMEOUT_S: Final = 0.5


@behaviour("B701", lane=Lane.FAULT, profiles=(ConformanceProfile.FAULT,))
async def configure_fails(context: BehaviourContext) -> None:
    """A Configure that fails ends in Failed with a reason.

    1. Walk a machine to I, Configure it for cluster `fault-error`.
    2. FAILED within the transition timeout + 5 s, last_error set; for 300 ms it stays FAILED.
    """
    machine_id = await _configured_for(context, "fault-error")
    await _failed(context, machine_id, 5.0)
    await context.stays(machine_id, F)


@behaviour("B702", lane=Lane.FAULT, profiles=(ConformanceProfile.FAULT,), bare_metal=False)
async def create_fails(context: BehaviourContext) -> None:
    """A Create that fails ends in Failed with a reason.

    1. Create a slot that bears the label `conformance.fault/create=error`.
    2. FAILED within the transition timeout + 5 s, last_error set; for 300 ms it stays FAILED.
    """
    machine_id = await context.labelled_slot(*_LABEL)
    accepted(await context.calls.create(machine_id), "Create")
    await _failed(context, machine_id, 5.0)
    await context.stays(machine_id, F)


@behaviour("B703", lane=Lane.FAULT, profiles=(ConformanceProfile.FAULT,))
async def configure_hangs(context: BehaviourContext) -> None:
    """A Configure that hangs ends in Failed when its time is up.

    1. Walk a machine to I, Configure it for cluster `fault-timeout`.
    2. FAILED within the transition timeout + 3 s, last_error set.
    """
    await _failed(context, await _configured_for(context, "fault-timeout"), 3.0)


@behaviour("B704", lane=Lane.FAULT, profiles=(ConformanceProfile.FAULT,))
async def late_success(context: BehaviourContext) -> None:
    """A success that comes after the timeout changes nothing.

    1. Walk a machine to I, Configure it for cluster `fault-slow-ok`: FAILED when its time is up.
    2. For the transition timeout + 2 s more it stays FAILED, with last_error.
    """
    machine_id = await _configured_for(context, "fault-slow-ok")
    await _failed(context, machine_id, 3.0)
    machine = await context.stays(machine_id, F, context.timings.transition_timeout_s + 2.0)
    failed_with_reason(machine, "after the late success")


@behaviour("B705", lane=Lane.FAULT, profiles=(ConformanceProfile.FAULT,))
async def nothing_leads_out_of_failed(context: BehaviourContext) -> None:
    """No call leads out of Failed.

    1. Bring a machine to FAILED by cluster `fault-error`.
    2. Configure it again: rejected, with any code but FAILED_PRECONDITION.
    3. State and last_error are unchanged.
    """
    machine_id = await _configured_for(context, "fault-error")
    before = await _failed(context, machine_id, 5.0)
    rejected(await context.calls.configure(machine_id, context.cluster()), "Configure of a Failed machine")
    machine = await context.stays(machine_id, F)
    found = machine.last_error
    require(found == before.last_error, f"last_error is {found!r}, due was {before.last_error!r}")


@behaviour("B706", lane=Lane.FAULT, profiles=(ConformanceProfile.FAULT,))
async def drain_fails(context: BehaviourContext) -> None:
    """A Drain that fails does not leave the machine in Draining.

    1. Walk a machine to C in cluster `fault-drain-error`, Drain it with grace 0.
    2. FAILED with last_error, or I; no DRAINING afterwards.
    """
    machine_id = await _configured_for(context, "fault-drain-error")
    await context.settle(machine_id, C)
    accepted(await context.calls.drain(machine_id, 0), "Drain")

    def ended(machine: pb.Machine) -> bool:
        return machine.state in (F, I)

    limit_s = context.timings.transition_timeout_s + 5.0
    machine = await context.poll(machine_id, limit_s, context.timings.poll_s, ended)
    require(machine.state != DRAINING, f"{machine_id} is still DRAINING after {limit_s:g} s")
    if machine.state == F:
        failed_with_reason(machine, "after the drain")
    else:
        in_state(machine, I, "after the drain")
    await context.stays(machine_id, machine.state)


@behaviour("B707", lane=Lane.FAULT, profiles=(ConformanceProfile.FAULT,))
async def reason_everywhere(context: BehaviourContext) -> None:
    """Get and List give the same reason for a failure.

    1. Bring a machine to FAILED by cluster `fault-error`.
    2. Three Gets and a List of state FAILED: the same last_error.
    """
    machine_id = await _configured_for(context, "fault-error")
    due = (await _failed(context, machine_id, 5.0)).last_error
    texts = [(await context.get(machine_id)).last_error for _ in range(3)]
    listing = listed(await context.calls.list([F]), "List of Failed machines")
    texts += [machine.last_error for machine in listing.machines if machine.id == machine_id]
    require(len(texts) == 4, f"List of Failed machines lacks {machine_id}")
    for found in texts:
        require(found == due, f"last_error is {found!r} in one place, {due!r} in another")


@behaviour("B708", lane=Lane.FAULT, profiles=(ConformanceProfile.FAULT,))
async def never_ready(context: BehaviourContext) -> None:
    """A node that never gets Ready is never Configured.

    1. Walk a machine to I, Configure it for cluster `fault-readiness-block`.
    2. Until 0.5 s before the transition timeout it is never C.
    3. Then FAILED with last_error.
    """
    machine_id = await _configured_for(context, "fault-readiness-block")

    def look(machine: pb.Machine) -> bool:
        if machine.state == C:
            fail(f"{machine_id} is Configured although its node never got Ready")
        return False

    window_s = max(context.timings.transition_timeout_s - _BEFORE_TIMEOUT_S, 0.0)
    await context.poll(machine_id, window_s, context.timings.poll_s, look)
    await _failed(context, machine_id, 3.0)


async def _configured_for(context: BehaviourContext, trigger: str) -> str:
    machine_id = await context.idle()
    accepted(await context.calls.configure(machine_id, trigger), f"Configure for cluster {trigger}")
    return machine_id


async def _failed(context: BehaviourContext, machine_id: str, more_s: float) -> pb.Machine:
    limit_s = context.timings.transition_timeout_s + more_s

    def ended(machine: pb.Machine) -> bool:
        return machine.state in (F, C)

    machine = await context.poll(machine_id, limit_s, context.timings.poll_s, ended)
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
