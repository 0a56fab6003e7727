"""Finds out on one throw-away machine what a provider offers beyond the least.

Must never: count as a test; what it cannot find out it leaves unknown.
Rules: providers 2.1 (capability probe).
"""

from bigfleet.aio.net import Code
from bigfleet.provider.conformance.bench import Capabilities
from bigfleet.provider.conformance.errors import NoMachineError, ViolationError
from bigfleet.provider.conformance.lab import Lab


async def probe(lab: Lab) -> Capabilities | None:
    """Return what is offered, None where no machine was there to find out."""
    try:
        (machine_id,) = await lab.movables(1)
        before = (await lab.calls.list()).revision
        await lab.move(machine_id)
        await lab.settle(machine_id, lab.moved)
        after = (await lab.calls.list()).revision
    except (NoMachineError, ViolationError):
        return None
    cursor = before != after
    if lab.bare_metal:
        return Capabilities(cursor=cursor, delete=False)
    deleted = await lab.calls.delete(machine_id)
    return Capabilities(cursor=cursor, delete=deleted.code is not Code.UNIMPLEMENTED)
