"""Finds out on one throw-away machine what a provider offers beyond the least.

Must never: count as a test; what it cannot find out it leaves unknown.
Rules: `providers#capability-probe`.
"""

from bigfleet.aio.net import Code
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.errors import NoMachineError, ViolationError
from bigfleet.provider.conformance.target_endpoint import Capabilities


async def probe(context: BehaviourContext) -> Capabilities | None:
    """Return what is offered, None where no machine was there to find out."""
    try:
        (machine_id,) = await context.movables(1)
        before = (await context.calls.list()).revision
        await context.move(machine_id)
        await context.settle(machine_id, context.moved)
        after = (await context.calls.list()).revision
    except (NoMachineError, ViolationError):
        return None
    cursor = before != after
    if context.bare_metal:
        return Capabilities(cursor=cursor, delete=False)
    deleted = await context.calls.delete(machine_id)
    return Capabilities(cursor=cursor, delete=deleted.code is not Code.UNIMPLEMENTED)
