"""Baseline behaviours A01 to A16 and A23 to A25: the least that any provider must do.

Must never: send a token; the fencing part of the baseline is `bigfleet.provider.conformance.families.baseline_fencing`.
Rules: `providers#family-baseline`.
"""

import math
from typing import Final

from bigfleet.aio.net import Code
from bigfleet.provider.conformance.behaviour import Behaviour, Lane, behaviour
from bigfleet.provider.conformance.checks import (
    accepted,
    answered,
    bound_to,
    carries,
    fail,
    failed_with_reason,
    in_state,
    listed,
    operation,
    rejected,
    require,
    unbound,
)
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.settings import ConformanceProfile
from bigfleet.provider.conformance.states import CREATING, REAL, C, F, I, S, state_name
from bigfleet.v1alpha1 import provider_pb2 as pb

_SOON_S: Final = 10.0
_DRAIN_S: Final = 30.0
_REVISION_S: Final = 5.0
_BASELINE: Final = Lane.BASELINE


@behaviour("A01", "FullLifecycle", lane=_BASELINE)
async def full_lifecycle(context: BehaviourContext) -> None:
    """One machine goes through its whole life: Create, Configure, Drain, Delete.

    1. Create a slot: the ack has an operation_id; I within 10 s. On bare metal: take an Idle machine.
    2. Configure it: the ack has an operation_id; C within 10 s.
    3. Drain it with grace 5: I within 30 s.
    4. Delete it: S within 10 s; UNIMPLEMENTED ends the walk as a pass.
    """
    if context.bare_metal:
        machine_id = await context.idle()
    else:
        machine_id = await context.slot()
        operation(await context.calls.create(machine_id), "Create of a slot")
        await context.settle(machine_id, I, _SOON_S)
    operation(await context.calls.configure(machine_id, context.cluster()), "Configure of an Idle machine")
    await context.settle(machine_id, C, _SOON_S)
    accepted(await context.calls.drain(machine_id, 5), "Drain of a Configured machine")
    await context.settle(machine_id, I, _DRAIN_S)
    if context.bare_metal:
        return
    deleted = await context.calls.delete(machine_id)
    if deleted.code is not Code.UNIMPLEMENTED:
        accepted(deleted, "Delete of an Idle machine")
        await context.settle(machine_id, S, _SOON_S)


@behaviour("A02", "CreateIdempotent", lane=_BASELINE, bare_metal=False)
async def create_idempotent(context: BehaviourContext) -> None:
    """Two Creates of one slot are one operation.

    1. Create a slot twice: both accepted, with one operation_id.
    """
    machine_id = await context.slot()
    first = operation(await context.calls.create(machine_id), "first Create")
    _same(first, operation(await context.calls.create(machine_id), "second Create"))


@behaviour("A03", "ConfigureIdempotent", lane=_BASELINE)
async def configure_idempotent(context: BehaviourContext) -> None:
    """Two Configures of one machine are one operation.

    1. Walk a machine to I.
    2. Configure it twice with equal arguments: both accepted, with one operation_id.
    """
    machine_id = await context.idle()
    first = operation(await context.calls.configure(machine_id, context.cluster()), "first Configure")
    _same(first, operation(await context.calls.configure(machine_id, context.cluster()), "second Configure"))


@behaviour("A04", "DrainIdempotent", lane=_BASELINE)
async def drain_idempotent(context: BehaviourContext) -> None:
    """Two Drains of one machine are one operation.

    1. Walk a machine to C.
    2. Drain it twice with grace 30: both accepted, with one operation_id.
    """
    machine_id = await context.configured()
    first = operation(await context.calls.drain(machine_id, 30), "first Drain")
    _same(first, operation(await context.calls.drain(machine_id, 30), "second Drain"))


@behaviour("A05", "DeleteIdempotent", lane=_BASELINE, profiles=(ConformanceProfile.CLOUD,), bare_metal=False)
async def delete_idempotent(context: BehaviourContext) -> None:
    """Two Deletes of one machine are one operation.

    1. Walk a machine to I.
    2. Delete it twice: both accepted, with one operation_id; skipped on UNIMPLEMENTED.
    """
    machine_id = await context.idle()
    deleted = await context.calls.delete(machine_id)
    if deleted.code is Code.UNIMPLEMENTED:
        context.skip("Delete is not offered")
    first = operation(deleted, "first Delete")
    _same(first, operation(await context.calls.delete(machine_id), "second Delete"))


@behaviour("A06", "GetUnknownMachine", lane=_BASELINE)
async def get_unknown(context: BehaviourContext) -> None:
    """A machine that does not exist is not found.

    1. Get an unknown id: NOT_FOUND.
    """
    answered(await context.calls.get(context.ghost()), "Get of an unknown machine", Code.NOT_FOUND)


@behaviour("A07", "DeleteUnknownMachine", lane=_BASELINE)
async def delete_unknown(context: BehaviourContext) -> None:
    """A machine that does not exist cannot be deleted.

    1. Delete an unknown id: NOT_FOUND, or UNIMPLEMENTED where Delete is not offered.
    """
    ack = await context.calls.delete(context.ghost())
    answered(ack, "Delete of an unknown machine", Code.NOT_FOUND, Code.UNIMPLEMENTED)


@behaviour("A08", "ListFiltersByState", lane=_BASELINE)
async def list_filters(context: BehaviourContext) -> None:
    """A listing by state holds that state only.

    1. Walk a machine to I, so that there is something to find.
    2. List state I: every record is I, and the machine is among them.
    """
    machine_id = await context.idle()
    listing = listed(await context.calls.list([I]), "List of Idle machines")
    for machine in listing.machines:
        in_state(machine, I, "List of Idle machines")
    require(machine_id in listing.ids, f"List of Idle machines: {machine_id} is Idle and missing")


@behaviour("A09", "ListMaxResults", lane=_BASELINE)
async def list_max_results(context: BehaviourContext) -> None:
    """A listing keeps to its cap.

    1. List with max_results 1: at most one record.
    """
    listing = listed(await context.calls.list(max_results=1), "List of at most one")
    require(len(listing.machines) <= 1, f"List of at most one: found {len(listing.machines)} machines")


@behaviour("A10", "LabelShape", lane=_BASELINE)
async def label_shape(context: BehaviourContext) -> None:
    """Every record has an instance type and a real state.

    1. List everything: instance_type is not empty, the state is one of the eight; skipped when nothing is listed.
    """
    listing = await context.all()
    if not listing.machines:
        context.skip("the provider lists no machine")
    for machine in listing.machines:
        require(bool(machine.instance_type), f"{machine.id} has no instance_type")
        require(machine.state in REAL, f"{machine.id} has state number {machine.state}, allowed is 1 to 8")


@behaviour("A11", "CostFieldBounds", lane=_BASELINE)
async def cost_bounds(context: BehaviourContext) -> None:
    """Prices and probabilities are numbers within their bounds.

    1. List everything: price at least 0, probability from 0 to 1, neither of them NaN.
    """
    for machine in (await context.all()).machines:
        _check_cost(machine)


@behaviour("A12", "ListRevisionAdvances", lane=_BASELINE)
async def revision_advances(context: BehaviourContext) -> None:
    """A change moves the revision, where there is one.

    1. List and note the revision; skipped when it is empty.
    2. Create a slot, I within 5 s; on bare metal Configure an Idle machine, C within 5 s.
    3. List: the revision differs.
    """
    if context.bare_metal:
        machine_id = await context.idle()
        before = (await context.all()).revision
        accepted(await context.calls.configure(machine_id, context.cluster()), "Configure")
        await context.settle(machine_id, C, _REVISION_S)
    else:
        machine_id = await context.slot()
        before = (await context.all()).revision
        accepted(await context.calls.create(machine_id), "Create")
        await context.settle(machine_id, I, _REVISION_S)
    after = (await context.all()).revision
    if not before:
        context.skip("the provider has no revision")
    require(after != before, f"the revision is {after!r} before and after a change")


@behaviour("A13", "DrainOnSpeculative", lane=_BASELINE, bare_metal=False)
async def drain_on_slot(context: BehaviourContext) -> None:
    """A slot cannot be drained.

    1. Drain a slot: rejected, with any code but FAILED_PRECONDITION.
    """
    rejected(await context.calls.drain(await context.slot(), 5), "Drain of a slot")


@behaviour("A14", "DeleteOnConfigured", lane=_BASELINE)
async def delete_on_configured(context: BehaviourContext) -> None:
    """A bound machine is never deleted.

    1. Walk a machine to C.
    2. Delete it: rejected, with any code but FAILED_PRECONDITION.
    3. Get: still C.
    """
    machine_id = await context.configured()
    rejected(await context.calls.delete(machine_id), "Delete of a Configured machine")
    in_state(await context.get(machine_id), C, "after the rejected Delete")


@behaviour("A15", "TransitionalStateObservability", lane=_BASELINE, bare_metal=False)
async def transitional_state(context: BehaviourContext) -> None:
    """On its way to Idle a machine shows nothing but the states of that way.

    1. Create a slot.
    2. Get it every 5 ms for 1 s: S, CREATING or I, nothing else.
    3. I within 10 s.
    """
    machine_id = await context.slot()
    accepted(await context.calls.create(machine_id), "Create")

    def look(machine: pb.Machine) -> bool:
        if machine.state not in (S, CREATING, I):
            fail(f"after Create {machine_id} shows {state_name(machine.state)}, allowed is S, CREATING or I")
        return False

    await context.poll(machine_id, context.timings.observe_s, context.timings.observe_poll_s, look)
    await context.settle(machine_id, I, _SOON_S)


@behaviour("A16", "DrainGraceTimeout", lane=_BASELINE)
async def drain_without_grace(context: BehaviourContext) -> None:
    """A drain without grace comes to an end.

    1. Walk a machine to C.
    2. Drain it with grace 0: within 10 s I, or FAILED with last_error; neither C again nor stuck in DRAINING.
    """
    machine_id = await context.configured()
    ack = accepted(await context.calls.drain(machine_id, 0), "Drain with grace 0")
    left = ack.machine.state != C

    def look(machine: pb.Machine) -> bool:
        nonlocal left
        if machine.state == C and left:
            fail(f"{machine_id} fell back to CONFIGURED")
        left = left or machine.state != C
        return machine.state in (I, F)

    machine = await context.poll(machine_id, _SOON_S, context.timings.baseline_poll_s, look)
    if machine.state == F:
        failed_with_reason(machine, "after the drain")
    else:
        in_state(machine, I, "10 s after the drain")


@behaviour("A23", "MetadataEchoedOnGetAndList", lane=_BASELINE)
async def metadata_echoed(context: BehaviourContext) -> None:
    """Metadata and cluster come back as they were sent.

    1. Walk a machine to I.
    2. Configure it with a map, one value of which holds a NUL.
    3. Get, and List of state C: map and cluster are equal to what was sent.
    """
    metadata = {"bigfleet.lucy.sh/owner-shard": "shard-a", "binary": "before\x00after", "number": "42"}
    await _echoed(context, metadata)


@behaviour("A24", "MetadataAndBindingClearOnDrain", lane=_BASELINE)
async def metadata_cleared(context: BehaviourContext) -> None:
    """A drained machine has neither cluster nor metadata.

    1. Walk a machine to C with a map.
    2. Drain it with grace 5 until I: cluster and map are empty.
    """
    machine_id = await context.configured(metadata={"one": "1", "two": "2"})
    unbound(await context.unbind(machine_id), "after the drain")


@behaviour("A25", "MetadataUnknownKeysPreservedVerbatim", lane=_BASELINE)
async def metadata_verbatim(context: BehaviourContext) -> None:
    """Unknown keys are kept byte for byte.

    1. Walk a machine to I.
    2. Configure it with unicode, tab and empty values: echoed equal on Get and on List of state C.
    """
    await _echoed(
        context, {"example.org/späť": "naïve ☃", "tab": "a\tb", "empty": "", "x-unknown": " padded "}
    )


async def _echoed(context: BehaviourContext, metadata: dict[str, str]) -> None:
    machine_id = await context.configured(metadata=metadata)
    machine = await context.get(machine_id)
    listing = listed(await context.calls.list([C]), "List of Configured machines")
    found = [other for other in listing.machines if other.id == machine_id]
    require(len(found) == 1, f"List of Configured machines: {machine_id} is Configured and missing")
    for sight, what in ((machine, "Get"), (found[0], "List")):
        bound_to(sight, context.cluster(), what)
        carries(sight, metadata, what)


def _same(first: str, second: str) -> None:
    require(first == second, f"the repeat has operation_id {second!r}, due was {first!r}")


def _check_cost(machine: pb.Machine) -> None:
    price, probability = machine.price_per_hour, machine.interruption_probability
    require(not math.isnan(price) and price >= 0, f"{machine.id} has price {price}, allowed is at least 0")
    require(
        not math.isnan(probability) and 0 <= probability <= 1,
        f"{machine.id} has interruption probability {probability}, allowed is 0 to 1",
    )


BASELINE: Final[tuple[Behaviour, ...]] = (
    full_lifecycle,
    create_idempotent,
    configure_idempotent,
    drain_idempotent,
    delete_idempotent,
    get_unknown,
    delete_unknown,
    list_filters,
    list_max_results,
    label_shape,
    cost_bounds,
    revision_advances,
    drain_on_slot,
    delete_on_configured,
    transitional_state,
    drain_without_grace,
    metadata_echoed,
    metadata_cleared,
    metadata_verbatim,
)
