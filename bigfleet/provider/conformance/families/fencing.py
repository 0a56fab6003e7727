"""Behaviours B301 to B312: the fence in every order and combination.

Must never: use a shard id of another behaviour; marks outlive a run.
Rules: `providers#check-order`, `providers#fence-mark`, `providers#family-fencing`, `providers#trap-distinct-slots`,
`providers#trap-no-delete`, `providers#empty-token`; ADR-0058.

Tokens are tried by Create, which is idempotent at I; on bare metal by Configure, which is idempotent at C.
"""

from typing import Final

from bigfleet.aio.net import Code
from bigfleet.provider.conformance.behaviour import Behaviour, behaviour
from bigfleet.provider.conformance.caller import MutationReply
from bigfleet.provider.conformance.calls import CallToken
from bigfleet.provider.conformance.checks import (
    accepted,
    answered,
    fenced,
    in_state,
    listed,
    operation,
    rejected,
    require,
)
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.states import C, I, S

_MATRIX: Final = (
    ((2, 5), False),
    ((2, 4), False),
    ((1, 9), False),
    ((1, 99999), False),
    ((2, 6), True),
    ((2, 6), False),
    ((2, 5), False),
    ((3, 0), True),
    ((3, 0), False),
    ((2, 999999), False),
    ((3, 1), True),
    ((4, 0), True),
    ((4, 0), False),
    ((10, 7), True),
    ((10, 7), False),
    ((9, 999), False),
)


@behaviour("B301")
async def ghost_has_a_mark(context: BehaviourContext) -> None:
    """The fence is checked before the existence of the machine.

    1. Create an unknown id with (5,5): NOT_FOUND. On bare metal by Configure.
    2. Create, Configure, Drain and Delete it with (1,1): FAILED_PRECONDITION each; Delete may be UNIMPLEMENTED.
    3. Create it with (9,9): NOT_FOUND.
    """
    ghost, stale = context.ghost(), CallToken(context.shard(), 1, 1)
    answered(
        await context.move(ghost, CallToken(context.shard(), 5, 5)),
        "unknown machine with (5,5)",
        Code.NOT_FOUND,
    )
    if not context.bare_metal:
        fenced(await context.calls.create(ghost, stale), "Create of it with (1,1)")
    fenced(await context.calls.configure(ghost, context.cluster(), stale), "Configure of it with (1,1)")
    fenced(await context.calls.drain(ghost, 5, stale), "Drain of it with (1,1)")
    deleted = await context.calls.delete(ghost, stale)
    if deleted.code is not Code.UNIMPLEMENTED:
        fenced(deleted, "Delete of it with (1,1)")
    answered(
        await context.move(ghost, CallToken(context.shard(), 9, 9)),
        "unknown machine with (9,9)",
        Code.NOT_FOUND,
    )


@behaviour("B302")
async def a_mark_for_each_pair(context: BehaviourContext) -> None:
    """Marks belong to a pair of shard and machine, and capped listings do not all name one machine.

    1. Three times List of slots with max_results 1: one slot each, not three times the same.
    2. Three distinct slots; shards A, B, C on one each: (9,9), (7,3), (1,1): OK.
    3. A (1,1), B (7,3), C (1,1): FAILED_PRECONDITION; B (7,4): OK.
    4. Shard D: slot A (5,30), slot B (5,7): OK; both again and slot B (4,999): FAILED_PRECONDITION.
    """
    one, two, three = await context.fence_probes(3)
    named: list[str] = []
    for number in range(3):
        listing = await context.calls.list((context.endpoint.start_state,), max_results=1)
        ids = listed(listing, f"capped List {number}").ids
        require(len(ids) == 1, f"List with max_results 1 names {len(ids)} machines")
        named += ids
    require(len(set(named)) > 1, f"three Lists with max_results 1 name only {named[0]}")
    a, b, c, d = (context.shard(name) for name in "abcd")
    accepted(await one(a, 9, 9), "shard A with (9,9)")
    accepted(await two(b, 7, 3), "shard B with (7,3)")
    accepted(await three(c, 1, 1), "shard C with (1,1)")
    fenced(await one(a, 1, 1), "shard A with (1,1)")
    fenced(await two(b, 7, 3), "shard B with (7,3) again")
    fenced(await three(c, 1, 1), "shard C with (1,1) again")
    accepted(await two(b, 7, 4), "shard B with (7,4)")
    accepted(await one(d, 5, 30), "shard D, slot A with (5,30)")
    accepted(await two(d, 5, 7), "shard D, slot B with (5,7)")
    fenced(await one(d, 5, 30), "shard D, slot A with (5,30) again")
    fenced(await two(d, 5, 7), "shard D, slot B with (5,7) again")
    fenced(await two(d, 4, 999), "shard D, slot B with (4,999)")


@behaviour("B303")
async def matrix(context: BehaviourContext) -> None:
    """Tokens of one shard on one machine are ordered by epoch, then sequence.

    1. Set the mark (2,5).
    2. Send 2/5, 2/4, 1/9, 1/99999: FAILED_PRECONDITION; 2/6: OK; 2/6, 2/5: FAILED_PRECONDITION; 3/0: OK; 3/0, 2/999999:
       FAILED_PRECONDITION; 3/1: OK; 4/0: OK; 4/0: FAILED_PRECONDITION; 10/7: OK; 10/7, 9/999: FAILED_PRECONDITION.
    """
    probe = await context.fence_probe()
    accepted(await probe(context.shard(), 2, 5), "first contact with (2,5)")
    for pair, passes in _MATRIX:
        ack = await probe(context.shard(), *pair)
        judge(ack, passes, f"token {pair}")


@behaviour("B305")
async def stale_calls_leave_reads_alone(context: BehaviourContext) -> None:
    """Stale calls neither move a machine nor disturb reads.

    1. Set the mark (7,7) at I.
    2. Four times: a stale Create: FAILED_PRECONDITION; Get: OK; List and List of state I: not empty.
    3. The machine has not moved.
    """
    probe = await context.fence_probe()
    accepted(await probe(context.shard(), 7, 7), "first contact with (7,7)")
    before = await context.settle(probe.machine_id, context.moved)
    for number in range(4):
        fenced(await probe(context.shard(), 7, number), f"stale token (7,{number})")
        in_state(await context.get(probe.machine_id), context.moved, "Get after a stale call")
        for states in ((), (context.moved,)):
            listing = listed(await context.calls.list(states), "List after a stale call")
            require(probe.machine_id in listing.ids, f"List after a stale call lacks {probe.machine_id}")
    require(await context.get(probe.machine_id) == before, f"stale calls changed {probe.machine_id}")


@behaviour("B306")
async def stale_repeat_of_configure(context: BehaviourContext) -> None:
    """The fence is checked before a repeated Configure is answered.

    1. Walk a machine to I, Configure it with (5,5): an id.
    2. Repeat with (1,1): FAILED_PRECONDITION. Repeat with (5,6): the same id.
    3. Still C.
    """
    machine_id, shard = await context.idle(), context.shard()
    first = operation(
        await context.calls.configure(machine_id, context.cluster(), CallToken(shard, 5, 5)), "(5,5)"
    )
    await context.settle(machine_id, C)
    fenced(
        await context.calls.configure(machine_id, context.cluster(), CallToken(shard, 1, 1)),
        "repeat with (1,1)",
    )
    again = operation(
        await context.calls.configure(machine_id, context.cluster(), CallToken(shard, 5, 6)), "(5,6)"
    )
    require(again == first, f"the repeat has operation_id {again!r}, due was {first!r}")
    in_state(await context.get(machine_id), C, "after the repeats")


@behaviour("B307")
async def stale_repeat_of_drain(context: BehaviourContext) -> None:
    """The fence is checked before a repeated Drain is answered.

    1. Walk a machine to C, Drain it with grace 0 and (5,5): an id.
    2. Repeat with (1,1): FAILED_PRECONDITION. Repeat with (5,6): the same id.
    3. I.
    """
    machine_id, shard = await context.configured(), context.shard()
    first = operation(await context.calls.drain(machine_id, 0, CallToken(shard, 5, 5)), "(5,5)")
    fenced(await context.calls.drain(machine_id, 0, CallToken(shard, 1, 1)), "repeat with (1,1)")
    again = operation(await context.calls.drain(machine_id, 0, CallToken(shard, 5, 6)), "(5,6)")
    require(again == first, f"the repeat has operation_id {again!r}, due was {first!r}")
    await context.settle(machine_id, I)


@behaviour("B308")
async def empty_token(context: BehaviourContext) -> None:
    """A wholly empty token passes the fence and leaves no mark.

    1. Create a slot twice without a token, another slot once: all OK.
    2. The machines stay I.
    """
    one, other = await context.movables(2)
    for machine_id in (one, one, other):
        accepted(await context.move(machine_id), "a call without a token")
    for machine_id in (one, other):
        await context.settle(machine_id, context.moved)
    accepted(await context.move(one), "one more call without a token")
    in_state(await context.get(one), context.moved, "after calls without a token")


@behaviour("B309")
async def one_session(context: BehaviourContext) -> None:
    """A session with a rising sequence is never fenced; what it has passed is.

    1. Create, Configure, Drain, Configure, Drain with (1,1) to (1,5): all OK. On bare metal from Configure on.
    2. Configure with (1,1): FAILED_PRECONDITION.
    """
    (machine_id,) = await context.movables(1)
    shard, sequence = context.shard(), 0
    if not context.bare_metal:
        sequence = 1
        accepted(await context.calls.create(machine_id, CallToken(shard, 1, sequence)), "Create")
        await context.settle(machine_id, I)
    for _ in range(2):
        token = CallToken(shard, 1, sequence + 1)
        accepted(
            await context.calls.configure(machine_id, context.cluster(), token), f"Configure with {token}"
        )
        await context.settle(machine_id, C)
        token = CallToken(shard, 1, sequence + 2)
        accepted(await context.calls.drain(machine_id, 0, token), f"Drain with {token}")
        await context.settle(machine_id, I)
        sequence += 2
    fenced(
        await context.calls.configure(machine_id, context.cluster(), CallToken(shard, 1, 1)),
        "Configure with (1,1)",
    )
    in_state(await context.get(machine_id), I, "after the fenced call")


@behaviour("B310")
async def one_mark_for_all_kinds(context: BehaviourContext) -> None:
    """One mark serves all kinds of call, and outlives the host.

    1. Create (1,1), Delete (1,2), Create (1,3): OK. Without Delete: Create (1,1), Configure (1,2), Drain (1,3).
    2. Configure (1,1) and (1,3): FAILED_PRECONDITION; (2,1): OK.
    """
    (machine_id,) = await context.movables(1)
    shard = context.shard()
    if not context.bare_metal:
        accepted(await context.calls.create(machine_id, CallToken(shard, 1, 1)), "Create with (1,1)")
        await context.settle(machine_id, I)
    if context.capabilities.delete and not context.bare_metal:
        accepted(await context.calls.delete(machine_id, CallToken(shard, 1, 2)), "Delete with (1,2)")
        await context.settle(machine_id, S)
        accepted(await context.calls.create(machine_id, CallToken(shard, 1, 3)), "Create with (1,3)")
        await context.settle(machine_id, I)
    else:
        ack = await context.calls.configure(machine_id, context.cluster(), CallToken(shard, 1, 2))
        accepted(ack, "Configure with (1,2)")
        await context.settle(machine_id, C)
        accepted(await context.calls.drain(machine_id, 0, CallToken(shard, 1, 3)), "Drain with (1,3)")
        await context.settle(machine_id, I)
    for pair, passes in (((1, 1), False), ((1, 3), False), ((2, 1), True)):
        ack = await context.calls.configure(machine_id, context.cluster(), CallToken(shard, *pair))
        judge(ack, passes, f"Configure with {pair}")


@behaviour("B311")
async def rejected_call_moves_the_mark(context: BehaviourContext) -> None:
    """A token that passed the fence moves the mark, whatever becomes of the call.

    1. Drain a slot with (5,5): rejected. On bare metal: Configure with (5,1), then Create at C with (5,5).
    2. Create it with (5,4): FAILED_PRECONDITION; with (5,6): OK.
    """
    probe, shard = await context.fence_probe(), context.shard()
    if context.bare_metal:
        accepted(await probe(shard, 5, 1), "Configure with (5,1)")
        await context.settle(probe.machine_id, C)
        ack = await context.calls.create(probe.machine_id, CallToken(shard, 5, 5))
        if ack.code is Code.UNIMPLEMENTED:
            context.skip("Create is not offered, and no other call is out of position here")
        rejected(ack, "Create of a Configured machine with (5,5)")
    else:
        rejected(
            await context.calls.drain(probe.machine_id, 5, CallToken(shard, 5, 5)),
            "Drain of a slot with (5,5)",
        )
    fenced(await probe(shard, 5, 4), "(5,4) after the rejected (5,5)")
    accepted(await probe(shard, 5, 6), "(5,6) after the rejected (5,5)")


@behaviour("B312")
async def seeded_tokens(context: BehaviourContext) -> None:
    """Two hundred tokens near the mark are judged as the order says.

    1. Send 200 seeded tokens to one machine: accepted if greater than every one accepted before, else
       FAILED_PRECONDITION.
    """
    probe, lots = await context.fence_probe(), context.lots()
    mark: tuple[int, int] | None = None
    for _ in range(200):
        epoch, sequence = mark or (3, 50)
        step = lots.choice((-1, 0, 0, 0, 0, 0, 1))
        pair = (max(epoch + step, 0), max(sequence + lots.randint(-3, 3), 0))
        passes = mark is None or pair > mark
        judge(await probe(context.shard(), *pair), passes, f"token {pair} against the mark {mark}")
        mark = pair if passes else mark


def judge(ack: MutationReply, passes: bool, what: str) -> None:
    """Demand acceptance, or the fence."""
    if passes:
        accepted(ack, what)
    else:
        fenced(ack, what)


FENCING: Final[tuple[Behaviour, ...]] = (
    ghost_has_a_mark,
    a_mark_for_each_pair,
    matrix,
    stale_calls_leave_reads_alone,
    stale_repeat_of_configure,
    stale_repeat_of_drain,
    empty_token,
    one_session,
    one_mark_for_all_kinds,
    rejected_call_moves_the_mark,
    seeded_tokens,
)
