"""Behaviours B201 to B208: calls out of position, repeats, unknown and empty ids.

Must never: demand a particular code where the contract leaves it free; FAILED_PRECONDITION alone is always wrong here.
Rules: `providers#check-order`, `providers#idempotency-table`, `providers#status-codes`, `providers#family-refusals`.
"""

from typing import Final

from bigfleet.aio.net import Code
from bigfleet.provider.conformance.behaviour import Behaviour, behaviour
from bigfleet.provider.conformance.checks import (
    accepted,
    answered,
    bound_to,
    in_state,
    operation,
    rejected,
    require,
    unbound,
)
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.settings import ConformanceProfile
from bigfleet.provider.conformance.states import CREATING, C, I, S


@behaviour("B201")
async def create_on_configured(context: BehaviourContext) -> None:
    """A bound machine cannot be created.

    1. Walk a machine to C, Create it: rejected, with any code but FAILED_PRECONDITION.
    2. It stays C for 250 ms, its cluster untouched.
    """
    machine_id = await context.configured()
    rejected(await context.calls.create(machine_id), "Create of a Configured machine")
    bound_to(
        await context.stays(machine_id, C, context.timings.error_window_s),
        context.cluster(),
        "after the rejection",
    )


@behaviour("B202", bare_metal=False)
async def configure_on_slot(context: BehaviourContext) -> None:
    """A slot cannot be configured.

    1. Configure a slot: rejected, with any code but FAILED_PRECONDITION.
    2. It stays S for 250 ms, without cluster or map.
    """
    machine_id = await context.slot()
    ack = await context.calls.configure(machine_id, context.cluster(), metadata={"key": "value"})
    rejected(ack, "Configure of a slot")
    unbound(await context.stays(machine_id, S, context.timings.error_window_s), "after the rejection")


@behaviour("B203")
async def drain_on_idle(context: BehaviourContext) -> None:
    """An Idle machine is not drained.

    1. Walk a machine to I, Drain it: rejected, or OK as a repeat.
    2. It stays I for 250 ms.
    """
    machine_id = await context.idle()
    ack = await context.calls.drain(machine_id, 5)
    if not ack.ok:
        rejected(ack, "Drain of an Idle machine")
    await context.stays(machine_id, I, context.timings.error_window_s)


@behaviour("B204", profiles=(ConformanceProfile.CORE, ConformanceProfile.CLOUD))
async def delete_out_of_position(context: BehaviourContext) -> None:
    """Only an Idle machine is deleted.

    1. Delete a slot: rejected, UNIMPLEMENTED, or OK without effect; it stays S for 250 ms.
    2. Walk a machine to C, Delete it: rejected or UNIMPLEMENTED; it stays C for 250 ms.
    """
    if not context.bare_metal:
        slot = await context.slot()
        ack = await context.calls.delete(slot)
        if not ack.ok:
            rejected(ack, "Delete of a slot")
        await context.stays(slot, S, context.timings.error_window_s)
    machine_id = await context.configured()
    rejected(await context.calls.delete(machine_id), "Delete of a Configured machine")
    bound_to(
        await context.stays(machine_id, C, context.timings.error_window_s),
        context.cluster(),
        "after the rejection",
    )


@behaviour("B205")
async def repeat_starts_nothing(context: BehaviourContext) -> None:
    """A repeat of what is done answers with the present state and starts nothing.

    1. Walk a machine to I; Create it again: OK, the ack never shows CREATING. Left out on bare metal.
    2. Configure it to C; Configure it again with equal arguments: OK, the ack shows C.
    """
    machine_id = await context.idle()
    if not context.bare_metal:
        again = accepted(await context.calls.create(machine_id), "Create of an Idle machine, repeated")
        require(again.machine.state != CREATING, "the repeated Create shows CREATING: it started again")
        in_state(await context.get(machine_id), I, "after the repeated Create")
    await context.bind(machine_id)
    again = accepted(await context.calls.configure(machine_id, context.cluster()), "Configure, repeated")
    in_state(again.machine, C, "ack of the repeated Configure")
    in_state(await context.get(machine_id), C, "after the repeated Configure")


@behaviour("B206")
async def repeat_returns_original_id(context: BehaviourContext) -> None:
    """A repeat returns the id of the operation it repeats, and kinds of operation have ids of their own.

    1. Create a slot; at I Create it again: the original id. On bare metal this step is Drain, at the end.
    2. Configure it; at C Configure it again: the original id.
    3. The two ids differ.
    """
    if context.bare_metal:
        machine_id = await context.idle()
    else:
        machine_id = await context.slot()
        first = operation(await context.calls.create(machine_id), "Create")
        await context.settle(machine_id, I)
        _original(first, operation(await context.calls.create(machine_id), "Create, repeated"), "Create")
    bound = operation(await context.calls.configure(machine_id, context.cluster()), "Configure")
    await context.settle(machine_id, C)
    again = operation(await context.calls.configure(machine_id, context.cluster()), "Configure, repeated")
    _original(bound, again, "Configure")
    if context.bare_metal:
        first = operation(await context.calls.drain(machine_id, 0), "Drain")
        await context.settle(machine_id, I)
        _original(first, operation(await context.calls.drain(machine_id, 0), "Drain, repeated"), "Drain")
    require(first != bound, f"two kinds of operation share the id {first!r}")


@behaviour("B207")
async def unknown_machine(context: BehaviourContext) -> None:
    """A machine that does not exist is not made up.

    1. Create, Configure and Drain an unknown id: NOT_FOUND each.
    2. Get it: still NOT_FOUND.
    """
    ghost = context.ghost()
    for ack, what in (
        (await context.calls.create(ghost), "Create"),
        (await context.calls.configure(ghost, context.cluster()), "Configure"),
        (await context.calls.drain(ghost, 5), "Drain"),
    ):
        answered(ack, f"{what} of an unknown machine", Code.NOT_FOUND)
    answered(await context.calls.get(ghost), "Get of an unknown machine", Code.NOT_FOUND)


@behaviour("B208")
async def empty_id(context: BehaviourContext) -> None:
    """An empty machine id is refused as an argument.

    1. Get, Create, Configure and Drain with an empty id: INVALID_ARGUMENT each.
    """
    answered(await context.calls.get(""), "Get of an empty id", Code.INVALID_ARGUMENT)
    for ack, what in (
        (await context.calls.create(""), "Create"),
        (await context.calls.configure("", context.cluster()), "Configure"),
        (await context.calls.drain("", 5), "Drain"),
    ):
        answered(ack, f"{what} of an empty id", Code.INVALID_ARGUMENT)


@behaviour("B215", profiles=(ConformanceProfile.CORE, ConformanceProfile.CLOUD))
async def delete_of_ghost(context: BehaviourContext) -> None:
    """A machine that does not exist is neither read nor deleted.

    1. Get an unknown id: NOT_FOUND.
    2. Delete it: NOT_FOUND, or UNIMPLEMENTED where Delete is not offered.
    3. Get it: still NOT_FOUND.
    """
    ghost = context.ghost()
    answered(await context.calls.get(ghost), "Get of an unknown machine", Code.NOT_FOUND)
    ack = await context.calls.delete(ghost)
    answered(ack, "Delete of an unknown machine", Code.NOT_FOUND, Code.UNIMPLEMENTED)
    answered(await context.calls.get(ghost), "Get after the Delete", Code.NOT_FOUND)


def _original(first: str, again: str, what: str) -> None:
    require(again == first, f"the repeated {what} has operation_id {again!r}, due was {first!r}")


REFUSALS: Final[tuple[Behaviour, ...]] = (
    create_on_configured,
    configure_on_slot,
    drain_on_idle,
    delete_out_of_position,
    repeat_starts_nothing,
    repeat_returns_original_id,
    unknown_machine,
    empty_id,
)
GHOSTS: Final[tuple[Behaviour, ...]] = (delete_of_ghost,)
