"""Gives back what a behaviour took: drains what is bound, deletes what is idle.

Why: a kit that empties the pool of the provider it tests can be run once; this one can be run every night.
Must never: fail a behaviour, or touch a machine that the kit did not take.
Rules: `providers#trap-clean-up`.
"""

from bigfleet.provider.conformance.caller import Caller
from bigfleet.provider.conformance.calls import told_machine
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.states import TRANSITIONAL, C, I
from bigfleet.v1alpha1 import provider_pb2 as pb


async def clean_up(context: BehaviourContext) -> None:
    """Bring every machine of a lab back to where it was taken, and note those that do not go."""
    if context.endpoint.disposable:
        return
    calls = context.endpoint.connect(context.log)
    try:
        for machine_id in dict.fromkeys(context.held):
            problem = (
                await _give_back(context, calls, machine_id)
                if context.settings.clean_up
                else "left as it was"
            )
            context.endpoint.release(machine_id, problem)
    finally:
        await calls.close()


async def _give_back(context: BehaviourContext, calls: Caller, machine_id: str) -> str:
    """Return an empty text when the machine can be used again, else how it was found last."""
    machine = await _rest(context, calls, machine_id)
    if machine is None:
        return "cannot be read"
    if machine.state == C and (await calls.drain(machine_id, 0)).ok:
        machine = await _rest(context, calls, machine_id) or machine
    may_delete = context.capabilities.delete and not context.bare_metal
    if machine.state == I and may_delete and (await calls.delete(machine_id)).ok:
        machine = await _rest(context, calls, machine_id) or machine
    return "" if machine.state == context.endpoint.start_state else told_machine(machine)


async def _rest(context: BehaviourContext, calls: Caller, machine_id: str) -> pb.Machine | None:
    """Wait until a machine is at rest, within bounds, and return it."""
    end_s = context.now_s() + context.timings.clean_up_s
    while True:
        sight = await calls.get(machine_id, poll=True)
        if not sight.ok:
            return None
        if sight.machine.state not in TRANSITIONAL or context.now_s() >= end_s:
            return sight.machine
        await context.pause(context.timings.poll_s)
