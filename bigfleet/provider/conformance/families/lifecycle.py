"""Behaviours B101 to B109: the states a machine passes, and what it carries in each.

Must never: fail a provider for a transitional state that was not seen; only a wrong one is wrong.
Rules: `providers#states`, `providers#family-lifecycle`.
"""

from itertools import pairwise
from typing import Final

from bigfleet.provider.conformance.behaviour import Behaviour, Prerequisite, behaviour
from bigfleet.provider.conformance.checks import (
    accepted,
    bound_to,
    fail,
    in_state,
    only_passes,
    require,
    unbound,
)
from bigfleet.provider.conformance.context import BehaviourContext, states_of
from bigfleet.provider.conformance.settings import ConformanceProfile
from bigfleet.provider.conformance.states import (
    CONFIGURING,
    CREATING,
    DELETING,
    DRAINING,
    C,
    I,
    S,
    State,
    has_host,
    state_name,
)

_ROUNDS: Final = 4
_STEPS: Final[frozenset[tuple[State, State]]] = frozenset(
    {
        (S, CREATING),
        (S, I),
        (CREATING, I),
        (I, CONFIGURING),
        (I, C),
        (CONFIGURING, C),
        (C, DRAINING),
        (C, I),
        (DRAINING, I),
    }
)


@behaviour("B101")
async def rounds(context: BehaviourContext) -> None:
    """A machine can be bound and freed again and again, and is clean each time.

    1. Walk a machine to I.
    2. Four rounds of Configure and Drain with grace 5: cluster set at each C; at each I no cluster, map or last_error.
    """
    machine_id = await context.idle()
    for number in range(_ROUNDS):
        cluster = context.cluster(f"round-{number}")
        bound_to(await context.bind(machine_id, cluster, {"round": str(number)}), cluster, f"round {number}")
        machine = await context.unbind(machine_id)
        unbound(machine, f"round {number}")
        require(not machine.last_error, f"round {number}: Idle with last_error {machine.last_error!r}")


@behaviour("B103")
async def configure_trace(context: BehaviourContext) -> None:
    """Between Idle and Configured lies Configuring and nothing else.

    1. Walk a machine to I, Configure it.
    2. Trace to C: no transitional state but CONFIGURING.
    """
    machine_id = await context.idle()
    accepted(await context.calls.configure(machine_id, context.cluster()), "Configure")
    only_passes(
        states_of(await context.trace(machine_id, C)), (I, CONFIGURING, C), "on the way to Configured"
    )


@behaviour("B104")
async def drain_trace(context: BehaviourContext) -> None:
    """Between Configured and Idle lies Draining and nothing else.

    1. Walk a machine to C, Drain it with grace 5.
    2. Trace to I: no transitional state but DRAINING.
    """
    machine_id = await context.configured()
    accepted(await context.calls.drain(machine_id, 5), "Drain")
    trace = await context.trace(machine_id, I, context.timings.settle_s + 5)
    only_passes(states_of(trace), (C, DRAINING, I), "on the way to Idle")


@behaviour("B105")
async def whole_trace(context: BehaviourContext) -> None:
    """Every step of the way from slot to Configured and back is an edge.

    1. Take a slot; Create, Configure, Drain, tracing all the way, acks included. On bare metal begin at I.
    2. The trace begins with S; each step is S→CREATING, S→I, CREATING→I, I→CONFIGURING, I→C, CONFIGURING→C,
       C→DRAINING, C→I or DRAINING→I.
    """
    if context.bare_metal:
        machine_id = await context.idle()
        seen = [await context.get(machine_id)]
    else:
        machine_id = await context.slot()
        seen = [await context.get(machine_id)]
        in_state(seen[0], S, "at the beginning")
        seen.append(accepted(await context.calls.create(machine_id), "Create").machine)
        seen += await context.trace(machine_id, I)
    seen.append(accepted(await context.calls.configure(machine_id, context.cluster()), "Configure").machine)
    seen += await context.trace(machine_id, C)
    seen.append(accepted(await context.calls.drain(machine_id, 5), "Drain").machine)
    seen += await context.trace(machine_id, I, context.timings.settle_s + 5)
    states = states_of(seen)
    for before, after in pairwise(states):
        if (before, after) not in _STEPS:
            fail(f"{machine_id} went from {state_name(before)} to {state_name(after)}, which is no edge")


@behaviour("B106")
async def cluster_by_state(context: BehaviourContext) -> None:
    """The cluster is set from Configuring on, and gone at Idle.

    1. Walk a machine to I: no cluster.
    2. Configure it and poll: set in any CONFIGURING seen, equal at C.
    3. Drain it and poll: set in any DRAINING seen, empty at I.
    """
    machine_id = await context.idle()
    unbound(await context.get(machine_id), "before Configure")
    accepted(await context.calls.configure(machine_id, context.cluster()), "Configure")
    for machine in await context.trace(machine_id, C):
        if machine.state in (CONFIGURING, C):
            bound_to(machine, context.cluster(), f"in {state_name(machine.state)}")
    accepted(await context.calls.drain(machine_id, 5), "Drain")
    for machine in await context.trace(machine_id, I, context.timings.settle_s + 5):
        if machine.state == DRAINING:
            bound_to(machine, context.cluster(), "in DRAINING")
    unbound(await context.get(machine_id), "after the drain")


@behaviour("B107")
async def host_by_state(context: BehaviourContext) -> None:
    """A slot has no host; from Idle on there is one.

    1. Take a slot: no host. Create it: host at I. Configure: host at C. Drain: host at I. On bare metal begin at I.
    """
    if context.bare_metal:
        machine_id = await context.idle()
    else:
        machine_id = await context.slot()
        require(not has_host(await context.get(machine_id)), f"the slot {machine_id} has a host")
        accepted(await context.calls.create(machine_id), "Create")
    require(has_host(await context.settle(machine_id, I)), f"{machine_id} is Idle without a host")
    require(has_host(await context.bind(machine_id)), f"{machine_id} is Configured without a host")
    require(has_host(await context.unbind(machine_id)), f"{machine_id} is Idle again without a host")


@behaviour("B108")
async def settled_holds(context: BehaviourContext) -> None:
    """A settled machine stays where it is.

    1. Walk a machine to C: it stays C for 300 ms.
    2. Drain it to I: it stays I for 300 ms.
    """
    machine_id = await context.configured()
    await context.stays(machine_id, C)
    await context.unbind(machine_id)
    await context.stays(machine_id, I)


@behaviour(
    "B109",
    profiles=(ConformanceProfile.CORE, ConformanceProfile.CLOUD),
    needs=(Prerequisite.DELETE,),
    bare_metal=False,
)
async def delete_trace(context: BehaviourContext) -> None:
    """Between Idle and Speculative lies Deleting, and the slot has no host.

    1. Walk a machine to I, Delete it.
    2. Trace to S: no transitional state but DELETING; no host at S.
    """
    machine_id = await context.idle()
    accepted(await context.calls.delete(machine_id), "Delete")
    trace = await context.trace(machine_id, S)
    only_passes(states_of(trace), (I, DELETING, S), "on the way to Speculative")
    require(not has_host(trace[-1]), f"the slot {machine_id} still has its host")


LIFECYCLE: Final[tuple[Behaviour, ...]] = (
    rounds,
    configure_trace,
    drain_trace,
    whole_trace,
    cluster_by_state,
    host_by_state,
    settled_holds,
    delete_trace,
)
