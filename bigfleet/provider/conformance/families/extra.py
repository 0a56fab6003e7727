"""Behaviours X01 to X06, X09 and X12: ours, beside the verdict unless they are asked to count.

Must never: put the marker of X03 into a report; it represents a secret.
Rules: `providers#family-extra`.
"""

import asyncio
from collections import Counter
from itertools import count
from typing import Final

from bigfleet.aio.net import MAX_MESSAGE_BYTES, Code
from bigfleet.provider.conformance.behaviour import Behaviour, Lane, Prerequisite, behaviour
from bigfleet.provider.conformance.calls import CallToken
from bigfleet.provider.conformance.checks import accepted, answered, fail, operation, require
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.families.scale import percentile_99
from bigfleet.provider.conformance.states import CREATING, C, I, State, has_host, state_name
from bigfleet.v1alpha1 import provider_pb2 as pb

_EXTRA: Final = Lane.EXTRA
_ALIEN_STATE: Final = 42
_HASTY: Final = 50
_HASTY_S: Final = 0.001
_SLOW: Final = 8
_ACK_S: Final = 1.0
_RECORD_OVERHEAD: Final = 5  # tag and length of one record within a listing


@behaviour("X01", lane=_EXTRA, profiles=())
async def alien_state(context: BehaviourContext) -> None:
    """A filter with an unknown state number does no harm.

    1. List with state number 42: INVALID_ARGUMENT, or nothing matched.
    2. List everything: OK.
    """
    listing = await context.calls.list([pb.MachineState.ValueType(_ALIEN_STATE)])
    answered(listing, "List of state 42", Code.INVALID_ARGUMENT, Code.OK)
    require(not listing.machines, f"List of state 42 matches {len(listing.machines)} machines")
    context.note(f"an unknown state number is answered with {listing.code.name}")
    await context.all()


@behaviour("X02", lane=_EXTRA, profiles=())
async def nameless_shard(context: BehaviourContext) -> None:
    """A token without a shard but with an epoch is never taken for a stale one.

    1. Create a slot with an empty shard id and epoch 1: INVALID_ARGUMENT or OK. Where that meets the mark of an earlier
       run, once more with a later epoch.
    """
    (machine_id,) = await context.movables(1)
    ack = await context.move(machine_id, CallToken("", 1, 0))
    if ack.fenced:
        ack = await context.move(machine_id, CallToken("", context.settings.clock.wall_ns(), 0))
    answered(ack, "a token without a shard", Code.OK, Code.INVALID_ARGUMENT)


@behaviour("X03", lane=_EXTRA, profiles=())
async def secret_blob(context: BehaviourContext) -> None:
    """The bootstrap blob shows up nowhere.

    1. Walk a machine to I, Configure it with a blob that holds a random marker.
    2. The marker is in no ack, no Get, no List.
    """
    marker = context.lots().randbytes(12).hex().encode()
    machine_id = await context.idle()
    ack = await context.calls.configure(machine_id, context.cluster(), blob=b"#!/bin/sh\n# " + marker)
    accepted(ack, "Configure")
    seen = [ack.machine, await context.settle(machine_id, C), *(await context.all()).machines]
    again = accepted(await context.calls.configure(machine_id, context.cluster()), "Configure, repeated")
    for machine in (*seen, again.machine):
        if marker in machine.SerializeToString():
            fail(f"the bootstrap blob sent to {machine_id} shows up in the record of {machine.id}")


@behaviour("X04", lane=_EXTRA, profiles=(), needs=(Prerequisite.LONG,))
async def storm(context: BehaviourContext) -> None:
    """A lone shard with many workers is never fenced.

    1. 32 workers of one shard work on 64 machines for 60 s, with one sequence for all, at most one call per machine at a
       time.
    2. No answer is FAILED_PRECONDITION.
    """
    sizes = context.settings.sizes
    free: asyncio.Queue[tuple[str, State]] = asyncio.Queue()
    for machine_id in await context.movables(sizes.storm_machines):
        free.put_nowait((machine_id, context.endpoint.start_state))
    sequence, shard, end_s = count(1), context.shard(), context.now_s() + context.timings.storm_s

    async def work() -> int:
        done = 0
        while context.now_s() < end_s:
            machine_id, state = await free.get()
            token = CallToken(shard, 1, next(sequence))
            if state == context.endpoint.start_state and not context.bare_metal:
                ack, target = await context.calls.create(machine_id, token), I
            elif state == I:
                ack, target = await context.calls.configure(machine_id, context.cluster(), token), C
            else:
                ack, target = await context.calls.drain(machine_id, 0, token), I
            accepted(ack, f"a call of a lone shard on {machine_id}")
            await context.settle(machine_id, target)
            free.put_nowait((machine_id, target))
            done += 1
        return done

    counts = await asyncio.gather(*(work() for _ in range(sizes.storm_workers)))
    context.note(f"{sum(counts)} calls by {sizes.storm_workers} workers")


@behaviour("X05", lane=_EXTRA, profiles=(), bare_metal=False)
async def hasty_caller(context: BehaviourContext) -> None:
    """A caller that gives up and tries again starts one operation.

    1. Create up to 50 slots, each with a deadline of 1 ms; then again without haste, twice: one id.
    2. All I; nothing is stuck in CREATING.
    """
    machine_ids = await context.some_slots(_HASTY)
    for machine_id in machine_ids:
        hasty = await context.calls.create(machine_id, timeout_s=_HASTY_S)
        first = operation(await context.calls.create(machine_id), "Create, tried again")
        again = operation(await context.calls.create(machine_id), "Create, tried once more")
        ids = {first, again, hasty.operation_id if hasty.ok else first}
        require(len(ids) == 1, f"{machine_id}: one Create and its repeats have {len(ids)} operation ids")
    for machine_id in machine_ids:
        machine = await context.settle(machine_id, I)
        require(machine.state != CREATING, f"{machine_id} is stuck in {state_name(machine.state)}")


@behaviour("X06", lane=_EXTRA, profiles=(), needs=(Prerequisite.LONG,))
async def slow_substrate(context: BehaviourContext) -> None:
    """Calls are answered at once, however slow the substrate is.

    1. On an endpoint that follows the fault convention: Configure 8 machines for cluster `fault-timeout`, which blocks.
    2. Meanwhile read, repeat and begin other operations: p99 of the acks at most 1 s.
    """
    machine_ids = await context.idles(2 * _SLOW)
    took_s = []
    for number, machine_id in enumerate((*machine_ids, *machine_ids)):
        cluster = "fault-timeout" if number % (2 * _SLOW) < _SLOW else context.cluster()
        begin_s = context.now_s()
        await context.calls.configure(machine_id, cluster)
        took_s.append(context.now_s() - begin_s)
    found_s = percentile_99(took_s)
    require(
        found_s <= _ACK_S, f"p99 of acks over a slow substrate is {found_s:.2f} s, allowed is {_ACK_S:g} s"
    )
    context.note(f"p99 of {len(took_s)} acks over a blocked substrate: {found_s * 1000:.1f} ms")


@behaviour("X09", lane=_EXTRA, profiles=())
async def size_report(context: BehaviourContext) -> None:
    """How large a fleet this provider can list in one answer.

    1. Walk two machines to I. List everything; report mean and greatest encoded record and how many fit into 256 MiB.
    2. No two records name the same host, which would count its capacity twice.
    """
    await context.idles(2)
    machines = (await context.all()).machines
    sizes = [machine.ByteSize() + _RECORD_OVERHEAD for machine in machines]
    mean = sum(sizes) / len(sizes)
    context.note(f"{len(sizes)} records, mean {mean:.0f} bytes, greatest {max(sizes)} bytes")
    context.note(
        f"about {int(MAX_MESSAGE_BYTES / mean):,} records of that size fit into one answer of 256 MiB"
    )
    hosts = Counter((m.host.provider, m.host.ref) for m in machines if has_host(m))
    shared = sorted(ref for (_, ref), number in hosts.items() if number > 1)
    require(not shared, f"several machines name the host {', '.join(shared[:3])}")


@behaviour("X12", lane=_EXTRA, profiles=())
async def leak_check(context: BehaviourContext) -> None:
    """Whatever the kit used is as it was, or is named.

    1. List everything: each machine that the kit worked on is in S or I, but for those that would not go back at the
       time; they are named in the report.
    """
    if not context.settings.clean_up:
        context.skip("--no-cleanup leaves machines as they are")
    now = {machine.id: machine.state for machine in (await context.all()).machines}
    at_rest = (context.endpoint.start_state, I)
    away = [machine_id for machine_id in context.endpoint.touched if now.get(machine_id) not in at_rest]
    texts = {machine_id: f"{machine_id} ({_told(now.get(machine_id))})" for machine_id in away}
    if named := [texts[machine_id] for machine_id in away if machine_id in context.endpoint.leftovers]:
        context.note(f"left behind: {', '.join(named)}")
    leaked = [texts[machine_id] for machine_id in away if machine_id not in context.endpoint.leftovers]
    require(not leaked, f"{len(leaked)} machines were given back and did not stay so: {', '.join(leaked)}")


def _told(state: State | None) -> str:
    return "not listed" if state is None else state_name(state)


EXTRA: Final[tuple[Behaviour, ...]] = (
    alien_state,
    nameless_shard,
    secret_blob,
    storm,
    hasty_caller,
    slow_substrate,
)
SIZES: Final[tuple[Behaviour, ...]] = (size_report,)
LEAKS: Final[tuple[Behaviour, ...]] = (leak_check,)
