"""Behaviours B501 to B505: the shard's own notes, kept byte for byte.

Must never: send what protobuf itself cannot carry, such as a lone surrogate.
Rules: `providers#record-fields`, `providers#family-metadata`.
"""

from typing import Final

from bigfleet.aio.net import Code
from bigfleet.provider.conformance.behaviour import Behaviour, behaviour
from bigfleet.provider.conformance.checks import (
    accepted,
    answered,
    bound_to,
    carries,
    in_state,
    listed,
    require,
    unbound,
)
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.states import CONFIGURING, C, I

_LONG_S: Final = 30.0


def hostile() -> dict[str, str]:
    """Return 55 entries that a careless provider changes: controls, NULs, blanks, look-alikes, the ends of unicode."""
    entries = {f"c0-{code:02x}": f"<{chr(code)}>" for code in range(0x20)}
    entries |= {f"c1-{code:02x}": f"<{chr(code)}>" for code in (0x80, 0x85, 0x8D, 0x9F)}
    entries |= {
        "nul\x00in key": "and\x00in value",
        "tab\tin key": "\t",
        "line\nin key": "a\r\nb\n",
        "empty": "",
        "padded": "  both ends  ",
        "blank": " ",
        "composed": "\u00e9",
        "decomposed": "e\u0301",
        "bidi": "\u202eabc\u202c",
        "joined": "\u200b\u200d\ufeff",
        "emoji": "\U0001f469\u200d\U0001f4bb",
        "last of the plane": "\uffff",
        "last of all": "\U0010ffff",
        "ключ": "значение",
        "quotes": "\"'`\\",
        "markup": "<a href='x'>&amp;%00%s{0}",
        "json": '{"a": [1, null]}',
        "KEY": "upper",
        "key": "lower",
    }
    return entries


@behaviour("B501")
async def hostile_keys(context: BehaviourContext) -> None:
    """Hostile metadata comes back unchanged, time and again.

    1. Walk a machine to I, Configure it with 55 hostile keys: NUL also in a key, controls, unicode, emoji, empty and
       padded values.
    2. Four Gets and a List of state C: equal to what was sent.
    """
    metadata = hostile()
    machine_id = await context.configured(metadata=metadata)
    for number in range(4):
        carries(await context.get(machine_id), metadata, f"Get number {number + 1}")
    listing = listed(await context.calls.list([C]), "List of Configured machines")
    found = [machine for machine in listing.machines if machine.id == machine_id]
    require(len(found) == 1, f"List of Configured machines lacks {machine_id}")
    carries(found[0], metadata, "List")


@behaviour("B502")
async def replaced(context: BehaviourContext) -> None:
    """A new binding has its own metadata and nothing of the old one.

    1. Walk a machine to C with a map, Drain it: cleared.
    2. Configure it for another cluster with other keys: exactly the new map and cluster.
    """
    machine_id = await context.configured(metadata={"old-1": "a", "old-2": "b"})
    unbound(await context.unbind(machine_id), "after the drain")
    metadata = {"new-1": "c", "new-2": "d", "new-3": "e"}
    machine = await context.bind(machine_id, context.cluster("other"), metadata)
    bound_to(machine, context.cluster("other"), "at the second binding")
    carries(machine, metadata, "at the second binding")


@behaviour("B503")
async def large_map(context: BehaviourContext) -> None:
    """A map of two megabytes is kept whole or refused whole.

    1. Walk a machine to I, Configure it with 256 keys of 8 KiB.
    2. OK: echoed equal within 30 s, and drained again. INVALID_ARGUMENT: still I, without map.
    """
    metadata = {f"large-{number:03d}": chr(65 + number % 26) * 8192 for number in range(256)}
    machine_id = await context.idle()
    ack = await context.calls.configure(machine_id, context.cluster(), metadata=metadata)
    answered(ack, "Configure with 256 keys of 8 KiB", Code.OK, Code.INVALID_ARGUMENT)
    if ack.ok:
        carries(await context.settle(machine_id, C, _LONG_S), metadata, "a map of 2 MiB")
        unbound(await context.unbind(machine_id), "after the drain")
    else:
        context.note("a map of 2 MiB is refused")
        machine = await context.get(machine_id)
        in_state(machine, I, "after the refusal")
        unbound(machine, "after the refusal")


@behaviour("B504")
async def from_the_first_moment(context: BehaviourContext) -> None:
    """Metadata is there from Configuring on.

    1. Walk a machine to I, Configure it with a map and poll: any CONFIGURING seen has the full map, and so has C.
    """
    machine_id, metadata = await context.idle(), {f"key-{number}": "value" * number for number in range(10)}
    accepted(await context.calls.configure(machine_id, context.cluster(), metadata=metadata), "Configure")
    for machine in await context.trace(machine_id, C):
        if machine.state in (CONFIGURING, C):
            carries(machine, metadata, "CONFIGURING" if machine.state == CONFIGURING else "CONFIGURED")


@behaviour("B505")
async def copied(context: BehaviourContext) -> None:
    """What was sent is copied, not borrowed.

    1. Walk a machine to C with a map.
    2. Change the map that was sent.
    3. Two reads: the stored map is as it was sent.
    """
    sent = {"stays": "as it was", "also": "this"}
    kept = dict(sent)
    machine_id = await context.configured(metadata=sent)
    sent["stays"] = "changed"
    sent.pop("also")
    for number in range(2):
        carries(await context.get(machine_id), kept, f"read number {number + 1}")


METADATA: Final[tuple[Behaviour, ...]] = (
    hostile_keys,
    replaced,
    large_map,
    from_the_first_moment,
    copied,
)
