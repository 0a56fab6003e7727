"""Behaviours X07, X08, X10 and X11: ours, for which the kit needs a hold on the process or on what lies below it.

Must never: signal anything but the process that the kit started.
Rules: `providers#revision`, `providers#family-extra`.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from bigfleet.aio.net import Code
from bigfleet.provider.conformance.behaviour import Behaviour, Lane, Prerequisite, behaviour
from bigfleet.provider.conformance.caller import MutationReply
from bigfleet.provider.conformance.calls import CallToken
from bigfleet.provider.conformance.checks import fail, failed_with_reason, fenced, in_state, listed, require
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.errors import NoMachineError, NotRunError, ViolationError
from bigfleet.provider.conformance.settings import Substrate
from bigfleet.provider.conformance.states import TRANSITIONAL, C, F, I, State, state_name
from bigfleet.v1alpha1 import provider_pb2 as pb

_EXTRA: Final = Lane.EXTRA
_WORKERS: Final = 4
_LIFE_S: Final = 0.2
_REMOVED: Final = "bigfleet.lucy.sh/removed"
_LOST: Final = (Code.UNAVAILABLE, Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNKNOWN)


@dataclass(slots=True)
class _Fact:
    """What a provider has acknowledged of one machine."""

    machine_id: str
    token: CallToken
    target: State = I
    """Where the acknowledged call leads."""
    cluster: str = ""
    doubtful: State | None = None
    """Where a later call leads that got no answer, so that it may or may not have taken effect."""


@behaviour("X07", lane=_EXTRA, profiles=(), needs=(Prerequisite.START, Prerequisite.LONG), bare_metal=False)
async def kills_under_load(context: BehaviourContext) -> None:
    """Kills at random moments lose nothing that was acknowledged.

    1. Twenty times: workers create, bind and drain machines with tokens; at a random moment the process is killed and
       started again.
    2. Every transition that was cut short ends: where the acknowledged call leads, or, if the provider cannot resume it, in
       FAILED with last_error. Every acknowledged token is fenced; every acknowledged binding is there.
    """
    lots = context.lots()
    for number in range(context.settings.sizes.kills):
        facts: list[_Fact] = []
        workers = [
            asyncio.get_running_loop().create_task(
                _load(context, facts, context.shard(f"{number}-{worker}"), 1000)
            )
            for worker in range(_WORKERS)
        ]
        await context.pause(lots.random() * _LIFE_S)
        await context.endpoint.kill()
        await asyncio.gather(*workers)
        await context.restart()
        await _check_facts(context, facts)


@behaviour("X08", lane=_EXTRA, profiles=(), needs=(Prerequisite.START, Prerequisite.LONG), bare_metal=False)
async def orderly_end(context: BehaviourContext) -> None:
    """A provider that is asked to end answers what it has begun, and ends well.

    1. Under load send SIGTERM: every call is answered or refused as unavailable, the exit code is 0.
    2. Start it again: what was acknowledged is there.
    """
    facts: list[_Fact] = []
    load = [
        asyncio.get_running_loop().create_task(_load(context, facts, context.shard(str(worker)), 50))
        for worker in range(_WORKERS)
    ]
    await context.pause(_LIFE_S / 2)
    running = context.endpoint.running
    code = 0 if running is None else await running.terminate()
    await asyncio.gather(*load)
    require(code == 0, f"the process ended with exit code {code}, due was 0")
    await context.restart()
    await _check_facts(context, facts)


@behaviour("X10", lane=_EXTRA, profiles=(), needs=(Prerequisite.SUBSTRATE, Prerequisite.CURSOR))
async def price_change(context: BehaviourContext) -> None:
    """A new price moves the revision once and nothing else.

    1. List and note the revision; change the price of one machine at the substrate.
    2. The delta since then holds the machine, with another price or probability and in the same state.
    3. A delta since the new head is empty.
    """
    (machine_id,) = await context.movables(1)
    before, cursor = await context.get(machine_id), (await context.all()).revision
    await _substrate(context).reprice(machine_id)
    end_s = context.now_s() + context.timings.settle_s
    while machine_id not in (delta := listed(await context.calls.list(since=cursor, poll=True), "delta")).ids:
        require(context.now_s() < end_s, f"the new price of {machine_id} is in no delta")
        await context.pause(context.timings.poll_s)
    after = await context.get(machine_id)
    changed = (after.price_per_hour, after.interruption_probability) != (
        before.price_per_hour,
        before.interruption_probability,
    )
    require(changed, f"{machine_id} is in the delta with its old price and probability")
    in_state(after, before.state, "after the new price")
    again = listed(await context.calls.list(since=delta.revision), "delta since the new head")
    require(machine_id not in again.ids, f"one change of price moved the revision of {machine_id} twice")


@behaviour("X11", lane=_EXTRA, profiles=(), needs=(Prerequisite.SUBSTRATE,))
async def removal(context: BehaviourContext) -> None:
    """A machine that is gone is reported before it disappears.

    1. Take one machine away at the substrate.
    2. It is reported FAILED with last_error beginning `removed:` and the label `bigfleet.lucy.sh/removed`.
    """
    (machine_id,) = await context.movables(1)
    await _substrate(context).remove(machine_id)

    def reported(machine: pb.Machine) -> bool:
        return _REMOVED in machine.labels

    machine = await context.poll(machine_id, context.timings.settle_s, context.timings.poll_s, reported)
    failed_with_reason(machine, "after the removal")
    require(
        machine.last_error.startswith("removed:"), f"last_error is {machine.last_error!r}, due is removed: …"
    )
    require(_REMOVED in machine.labels, f"{machine_id} lacks the label {_REMOVED}")


def _substrate(context: BehaviourContext) -> Substrate:
    if context.settings.substrate is None:
        raise NotRunError(f"needs {Prerequisite.SUBSTRATE.value}")
    return context.settings.substrate


async def _load(context: BehaviourContext, facts: list[_Fact], shard: str, most: int) -> None:
    """Walk one machine after another until the process is gone, noting what it acknowledged."""
    for number in range(most):
        try:
            (machine_id,) = await context.movables(1)
        except (NoMachineError, ViolationError):
            return  # the pool is empty, or the process was gone in the middle of the listing
        fact = _Fact(machine_id, CallToken(shard, 1, 0))
        for step, state in enumerate((I, C, I)):
            token = CallToken(shard, 1, 3 * number + step + 1)
            ack = await _ask(context, machine_id, step, token)
            if ack.code in _LOST:
                fact.doubtful = state
                return
            if not ack.ok:
                fail(f"under load on {machine_id}: found {ack}, due was OK")
            if not step:
                facts.append(fact)
            fact.token, fact.target = token, state
            fact.cluster = context.cluster() if state == C else ""
            if not await _settled(context, machine_id, state):
                return


async def _ask(context: BehaviourContext, machine_id: str, step: int, token: CallToken) -> MutationReply:
    if step == 0:
        return await context.calls.create(machine_id, token)
    if step == 1:
        return await context.calls.configure(machine_id, context.cluster(), token)
    return await context.calls.drain(machine_id, 0, token)


async def _settled(context: BehaviourContext, machine_id: str, state: State) -> bool:
    """Wait for a state; False once the process is gone."""
    end_s = context.now_s() + context.timings.settle_s
    while context.now_s() < end_s:
        sight = await context.calls.get(machine_id, poll=True)
        if not sight.ok:
            return False
        if sight.machine.state == state:
            return True
        await context.pause(context.timings.poll_s)
    return fail(f"under load {machine_id} does not reach {state_name(state)}")


async def _check_facts(context: BehaviourContext, facts: list[_Fact]) -> None:
    listed_ids = (await context.all()).ids
    for fact in facts:
        if fact.machine_id not in listed_ids:
            fail(f"{fact.machine_id} is no longer listed after the restart")
        machine = await context.poll(
            fact.machine_id, context.timings.settle_s, context.timings.poll_s, _has_settled
        )
        found = state_name(machine.state)
        require(_has_settled(machine), f"{fact.machine_id} is still {found} after the restart")
        if machine.state == F:
            failed_with_reason(machine, "after the restart")
        else:
            due = state_name(fact.target)
            reached = machine.state in (fact.target, fact.doubtful)
            require(reached, f"{fact.machine_id} is {found} after the restart, due was {due}")
        if fact.cluster and fact.doubtful is None:
            kept = machine.cluster
            require(kept == fact.cluster, f"{fact.machine_id} has cluster {kept!r} after the restart")
        fenced(
            await context.calls.create(fact.machine_id, fact.token),
            f"replay of {fact.token} after the restart",
        )


def _has_settled(machine: pb.Machine) -> bool:
    return machine.state not in TRANSITIONAL


PROCESS: Final[tuple[Behaviour, ...]] = (kills_under_load, orderly_end)
SUBSTRATE: Final[tuple[Behaviour, ...]] = (price_change, removal)
