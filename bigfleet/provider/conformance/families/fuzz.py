"""Behaviours B1201 to B1205: seeded random calls against a small oracle.

Must never: draw from anything but the behaviour's own stream; one seed is one sequence of calls.
Rules: `providers#family-fuzz`.
"""

from typing import Final

from bigfleet.aio.net import Code
from bigfleet.aio.rng import RandomStream
from bigfleet.provider.conformance.behaviour import Behaviour, behaviour
from bigfleet.provider.conformance.caller import MutationReply
from bigfleet.provider.conformance.calls import CallToken
from bigfleet.provider.conformance.checks import (
    accepted,
    answered,
    carries,
    listed,
    rejected,
    require,
    unbound,
)
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.families.fencing import judge
from bigfleet.provider.conformance.states import C, I, S, State, state_name

_MAX: Final = 2**63 - 1
_BOUNDARIES: Final = (0, 1, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, _MAX - 4)
# Ever greater pairs, each part at the end of some number range.
_CLIMBS: Final = tuple((epoch, sequence) for epoch in _BOUNDARIES for sequence in (epoch, _BOUNDARIES[-1]))
_CALLS: Final = ("create", "configure", "drain", "delete")
_EDGES: Final[dict[tuple[str, State], State]] = {
    ("create", S): I,
    ("configure", I): C,
    ("drain", C): I,
    ("delete", I): S,
}
_AT_TARGET: Final[frozenset[tuple[str, State]]] = frozenset(
    {("create", I), ("configure", C), ("drain", I), ("delete", S)}
)
_ALPHABETS: Final = ((0x20, 0x7E), (0x00, 0x1F), (0x80, 0x24F), (0x4E00, 0x4FFF), (0x1F300, 0x1FAFF))


@behaviour("B1201")
async def tokens_at_boundaries(context: BehaviourContext) -> None:
    """Tokens at the ends of number ranges, and negative ones, are judged as the order says.

    1. Send 240 seeded tokens near 0, 2^15, 2^31, 2^32, 2^53, 2^62 and the maximum to one machine; near 0 parts are
       negative, and ten times a higher epoch comes with a negative sequence.
    2. Accepted if greater than every one accepted before, else FAILED_PRECONDITION.
    """
    probe, lots = await context.fence_probe(), context.lots()
    mark: tuple[int, int] | None = None
    for number in range(240):
        if number % 12 == 0:
            pair = _CLIMBS[number // 12]
        elif mark is not None and number % 24 == 18:
            pair = (mark[0] + 1, -lots.randint(1, 3))
        else:
            epoch, sequence = mark or (0, 1)
            pair = (_near(epoch, lots.choice((-1, 0, 0, 0))), _near(sequence, lots.randint(-2, 2)))
        passes = mark is None or pair > mark
        judge(await probe(context.shard(), *pair), passes, f"token {pair} against the mark {mark}")
        mark = pair if passes else mark


@behaviour("B1202")
async def random_maps(context: BehaviourContext) -> None:
    """Random metadata comes back unchanged.

    1. Walk a machine to I. Twenty times: Configure it with a random UTF-8 map; equal on Get and on List of state C; Drain
       it with grace 0: cleared.
    """
    machine_id, lots = await context.idle(), context.lots()
    for number in range(20):
        metadata = {_text(lots, 1, 24): _text(lots, 0, 60) for _ in range(lots.randint(1, 12))}
        carries(await context.bind(machine_id, metadata=metadata), metadata, f"map {number} on Get")
        listing = listed(await context.calls.list([C]), "List of Configured machines")
        found = [machine for machine in listing.machines if machine.id == machine_id]
        require(len(found) == 1, f"List of Configured machines lacks {machine_id}")
        carries(found[0], metadata, f"map {number} on List")
        unbound(await context.unbind(machine_id, 0), f"map {number}")


@behaviour("B1203")
async def random_walks(context: BehaviourContext) -> None:
    """Random calls move a machine along its edges and nowhere else.

    1. Five walks of nine random calls, each on a machine of its own.
    2. A legal call settles at its target. A call whose target is the present state is OK or rejected, and the machine
       stays for 80 ms. Any other is rejected, and the machine stays. Delete without support is UNIMPLEMENTED.
    """
    lots = context.lots()
    calls = _CALLS[:3] if context.bare_metal else _CALLS
    for _ in range(5):
        (machine_id,) = await context.movables(1)
        state = context.endpoint.start_state
        for _ in range(9):
            state = await _step(context, machine_id, state, lots.choice(calls))


@behaviour("B1204")
async def tokens_of_many_pairs(context: BehaviourContext) -> None:
    """Every pair of shard and machine has a mark of its own.

    1. Send 200 seeded tokens of 3 shards to 4 machines: each judged by the mark of its pair alone. Parts may be negative,
       but for the first token of a pair.
    2. A new shard with (1,1): OK.
    """
    probes, lots = await context.fence_probes(4), context.lots()
    marks: dict[tuple[int, int], tuple[int, int]] = {}
    for _ in range(200):
        key = lots.randrange(3), lots.randrange(4)
        mark = marks.get(key)
        if mark is None:
            pair = (lots.randint(1, 4), lots.randint(0, 9))
        elif lots.random() < 0.5:
            pair = (mark[0] + lots.choice((-1, 0, 0, 0)), mark[1] + lots.randint(-2, 2))
        else:
            pair = (lots.randint(-1, 4), lots.randint(-3, 9))
        passes = mark is None or pair > mark
        ack = await probes[key[1]](context.shard(f"s{key[0]}"), *pair)
        judge(ack, passes, f"shard {key[0]}, machine {key[1]}, token {pair} against the mark {mark}")
        if passes:
            marks[key] = pair
    accepted(await probes[0](context.shard("new"), 1, 1), "a new shard with (1,1)")


@behaviour("B1205")
async def odd_arguments(context: BehaviourContext) -> None:
    """Odd arguments get the code that is due, and never the one that means fenced.

    1. Seeded rounds of: empty ids, unknown ids, negative grace, maps of 400 to 800 keys, blobs of 64 to 128 KiB, odd
       tokens, each by a shard that never called before.
    2. INVALID_ARGUMENT or NOT_FOUND where due, otherwise OK or INVALID_ARGUMENT; never FAILED_PRECONDITION.
    """
    lots = context.lots()
    machine_id = await context.idle()
    for number in range(12):
        token = _odd_token(lots, context.shard(f"fresh-{number}"))
        proper = CallToken(token.shard, abs(token.epoch), abs(token.sequence))
        answered(await _empty_id(context, lots, proper), "an empty id", Code.INVALID_ARGUMENT)
        ghost = await context.calls.configure(context.ghost(), context.cluster(), proper)
        answered(ghost, "an unknown id", Code.NOT_FOUND)
        metadata = {f"key-{key}": "v" * lots.randint(0, 16) for key in range(lots.randint(400, 800))}
        blob = lots.randbytes(lots.randint(64, 128) * 1024)
        ack = await context.calls.configure(
            machine_id, context.cluster(), token, metadata=metadata, blob=blob
        )
        answered(ack, f"odd {token}", Code.OK, Code.INVALID_ARGUMENT, Code.RESOURCE_EXHAUSTED)
        if not ack.ok:
            await context.bind(machine_id)
        await context.settle(machine_id, C)
        drained = await context.calls.drain(machine_id, -lots.randint(1, 1000))
        answered(drained, "negative grace", Code.OK, Code.INVALID_ARGUMENT)
        if not drained.ok:
            accepted(await context.calls.drain(machine_id, 0), "Drain with grace 0")
        await context.settle(machine_id, I)


def _near(value: int, step: int) -> int:
    return min(value + step, _MAX)


def _text(lots: RandomStream, least: int, most: int) -> str:
    letters = []
    for _ in range(lots.randint(least, most)):
        low, high = lots.choice(_ALPHABETS)
        letters.append(chr(lots.randint(low, high)))
    return "".join(letters)


def _odd_token(lots: RandomStream, shard: str) -> CallToken:
    odd = (-_MAX, -1, 0, 1, 2**31, _MAX)
    return CallToken(shard, lots.choice(odd), lots.choice(odd))


async def _empty_id(context: BehaviourContext, lots: RandomStream, token: CallToken) -> MutationReply:
    match lots.choice(_CALLS[:3]):
        case "create":
            return await context.calls.create("", token)
        case "configure":
            return await context.calls.configure("", context.cluster(), token)
        case _:
            return await context.calls.drain("", -1, token)


async def _step(context: BehaviourContext, machine_id: str, state: State, call: str) -> State:
    ack = await _call(context, machine_id, call)
    what = f"{call} at {state_name(state)}"
    window_s = context.timings.fuzz_window_s
    if call == "delete" and not context.capabilities.delete:
        answered(ack, f"{what}, not offered", Code.UNIMPLEMENTED)
        await context.stays(machine_id, state, window_s)
        return state
    target = _EDGES.get((call, state))
    if target is not None:
        accepted(ack, what)
        await context.settle(machine_id, target)
        return target
    if (call, state) not in _AT_TARGET or not ack.ok:
        rejected(ack, what)
    await context.stays(machine_id, state, window_s)
    return state


async def _call(context: BehaviourContext, machine_id: str, call: str) -> MutationReply:
    match call:
        case "create":
            return await context.calls.create(machine_id)
        case "configure":
            return await context.calls.configure(machine_id, context.cluster())
        case "drain":
            return await context.calls.drain(machine_id, 0)
        case _:
            return await context.calls.delete(machine_id)


FUZZ: Final[tuple[Behaviour, ...]] = (
    tokens_at_boundaries,
    random_maps,
    random_walks,
    tokens_of_many_pairs,
    odd_arguments,
)
