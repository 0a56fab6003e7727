"""Behaviours B209 to B214: extreme arguments, and an id for every operation.

Must never: be stricter than the contract: where it leaves two ways, either passes and the report says which was taken.
Rules: `providers#status-codes`, `providers#family-arguments`, `providers#trap-lenient-arguments`.
"""

from typing import Final

from bigfleet.aio.net import Code
from bigfleet.provider.conformance.behaviour import Behaviour, behaviour
from bigfleet.provider.conformance.calls import CallToken
from bigfleet.provider.conformance.checks import (
    accepted,
    answered,
    bound_to,
    carries,
    fenced,
    in_state,
    operation,
    require,
    unbound,
)
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.states import C, I

_LONG_S: Final = 20.0
_MAX: Final = 2**63 - 1
_KIB: Final = 1024
_NEGATIVE: Final = ((-1, 1), (1, -1), (-7, -3))


@behaviour("B209")
async def many_keys(context: BehaviourContext) -> None:
    """A map of half a megabyte is kept whole or refused whole.

    1. Walk a machine to I, Configure it with 512 keys of 1 KiB.
    2. OK: echoed equal within 20 s. INVALID_ARGUMENT: still I, without binding.
    """
    metadata = {f"key-{number:03d}": chr(97 + number % 26) * _KIB for number in range(512)}
    machine_id = await context.idle()
    ack = await context.calls.configure(machine_id, context.cluster(), metadata=metadata)
    answered(ack, "Configure with 512 keys", Code.OK, Code.INVALID_ARGUMENT)
    if ack.ok:
        carries(await context.settle(machine_id, C, _LONG_S), metadata, "a map of 512 keys")
    else:
        context.note("a map of 512 keys of 1 KiB is refused")
        await _still_idle(context, machine_id)


@behaviour("B210")
async def negative_grace(context: BehaviourContext) -> None:
    """A negative grace is refused, or counts as none.

    1. Walk a machine to C, Drain it with grace -5.
    2. INVALID_ARGUMENT: it stays C. OK: I within 20 s, the cluster cleared. The report says which.
    """
    machine_id = await context.configured()
    ack = await context.calls.drain(machine_id, -5)
    answered(ack, "Drain with grace -5", Code.OK, Code.INVALID_ARGUMENT)
    context.note(f"a negative grace is {'accepted' if ack.ok else 'refused'}")
    if ack.ok:
        unbound(await context.settle(machine_id, I, _LONG_S), "after the drain")
    else:
        bound_to(
            await context.stays(machine_id, C, context.timings.error_window_s),
            context.cluster(),
            "after the refusal",
        )


@behaviour("B211")
async def negative_tokens(context: BehaviourContext) -> None:
    """A token with negative parts is refused as an argument, or counts as first contact.

    1. Create three slots with (-1,1), (1,-1) and (-7,-3), each by a shard of its own.
    2. INVALID_ARGUMENT: still S. OK: I. The report says which. On bare metal by Configure: still I, or C.
    """
    ways = []
    for number, (machine_id, pair) in enumerate(zip(await context.movables(3), _NEGATIVE, strict=True)):
        ack = await context.move(machine_id, CallToken(context.shard(str(number)), *pair))
        answered(ack, f"token {pair}", Code.OK, Code.INVALID_ARGUMENT)
        if ack.ok:
            await context.settle(machine_id, context.moved)
        else:
            in_state(
                await context.get(machine_id), context.endpoint.start_state, f"after the refusal of {pair}"
            )
        ways.append("accepted" if ack.ok else "refused")
    context.note(f"tokens (-1,1), (1,-1), (-7,-3) are {', '.join(ways)}")


@behaviour("B212")
async def greatest_token(context: BehaviourContext) -> None:
    """The greatest token there is counts like any other.

    1. Walk a machine to I, Configure it with (max,max): OK, C within 20 s.
    2. Create it with (max,max), then (max-1,max): FAILED_PRECONDITION both, although out of position. On bare metal
       this is Drain.
    3. The cluster is still set.
    """
    machine_id = await context.idle()
    shard = context.shard()
    ack = await context.calls.configure(machine_id, context.cluster(), CallToken(shard, _MAX, _MAX))
    accepted(ack, "Configure with (max,max)")
    await context.settle(machine_id, C, _LONG_S)
    for epoch in (_MAX, _MAX - 1):
        token = CallToken(shard, epoch, _MAX)
        if context.bare_metal:
            fenced(await context.calls.drain(machine_id, 0, token), f"Drain with {token}")
        else:
            fenced(await context.calls.create(machine_id, token), f"Create with {token}")
    bound_to(await context.get(machine_id), context.cluster(), "after the fenced calls")


@behaviour("B213")
async def large_blob(context: BehaviourContext) -> None:
    """A large bootstrap blob is taken, or refused without a trace.

    1. Walk a machine to I, Configure it with a blob of 3 MiB.
    2. OK: C with cluster within 20 s. INVALID_ARGUMENT or RESOURCE_EXHAUSTED: still I, without cluster.
    """
    machine_id = await context.idle()
    ack = await context.calls.configure(machine_id, context.cluster(), blob=b"#" * (3 * _KIB * _KIB))
    answered(ack, "Configure with 3 MiB", Code.OK, Code.INVALID_ARGUMENT, Code.RESOURCE_EXHAUSTED)
    if ack.ok:
        bound_to(await context.settle(machine_id, C, _LONG_S), context.cluster(), "at C")
    else:
        context.note(f"a blob of 3 MiB is refused with {ack.code.name}")
        await _still_idle(context, machine_id)


@behaviour("B214")
async def an_id_for_each_operation(context: BehaviourContext) -> None:
    """Every operation that really starts has an id of its own.

    1. Create, Configure, Drain with grace 5, Configure, Drain with grace 5: five different ids, none empty. On bare
       metal the first is left out.
    2. Repeat the last Drain: the fifth id.
    """
    ids: list[str] = []
    if context.bare_metal:
        machine_id = await context.idle()
    else:
        machine_id = await context.slot()
        ids.append(operation(await context.calls.create(machine_id), "Create"))
        await context.settle(machine_id, I)
    for _ in range(2):
        ids.append(operation(await context.calls.configure(machine_id, context.cluster()), "Configure"))
        await context.settle(machine_id, C)
        ids.append(operation(await context.calls.drain(machine_id, 5), "Drain"))
        await context.settle(machine_id, I, _LONG_S)
    require(
        len(set(ids)) == len(ids), f"{len(ids)} operations have the ids {', '.join(ids)}: one occurs twice"
    )
    again = operation(await context.calls.drain(machine_id, 5), "Drain, repeated")
    require(again == ids[-1], f"the repeated Drain has operation_id {again!r}, due was {ids[-1]!r}")


async def _still_idle(context: BehaviourContext, machine_id: str) -> None:
    machine = await context.get(machine_id)
    in_state(machine, I, "after the refusal")
    unbound(machine, "after the refusal")


ARGUMENTS: Final[tuple[Behaviour, ...]] = (
    many_keys,
    negative_grace,
    negative_tokens,
    greatest_token,
    large_blob,
    an_id_for_each_operation,
)
