"""Behaviours B1101 to B1109: a fleet of thousands, and the time it takes.

Must never: be taken for a benchmark: the bounds are wide, and only a provider that is really slow breaks them.
Rules: `providers#family-scale`, `providers#verdict`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from bigfleet.provider.conformance.behaviour import Behaviour, Lane, Prerequisite, behaviour
from bigfleet.provider.conformance.checks import accepted, fail, in_state, listed, require, unbound
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.families.concurrency import created_in_parallel
from bigfleet.provider.conformance.families.fields import check_capacity_type, check_cost
from bigfleet.provider.conformance.families.listing import walk_pages
from bigfleet.provider.conformance.settings import ConformanceProfile
from bigfleet.provider.conformance.states import REAL, TRANSITIONAL, C, F, I, S, state_name

_PROFILES: Final = (ConformanceProfile.SCALE,)
_CHANGED: Final = 20
_PAGE: Final = 500
_SOAKED: Final = 8
_READS: Final = 120
_CREATES: Final = 60
_WARM_LIST_S: Final = 3.0
_P99_S: Final = {"Get": 0.25, "List": 2.0, "Create": 0.25}


@behaviour("B1101", lane=Lane.SCALE, profiles=_PROFILES, needs=(Prerequisite.START,))
async def valid_fleet(context: BehaviourContext) -> None:
    """Every record of a large fleet is valid.

    1. List everything: at least as many records as were asked for; state, type, zone, capacity type and cost are valid.
    """
    machines = (await context.all()).machines
    due = context.endpoint.seed_count
    require(len(machines) >= due, f"found {len(machines)} records, due were at least {due}")
    for machine in machines:
        require(machine.state in REAL, f"{machine.id} has state number {machine.state}")
        require(bool(machine.instance_type), f"{machine.id} has no instance_type")
        require(bool(machine.zone), f"{machine.id} has no zone")
        check_capacity_type(machine)
        check_cost(machine)


@behaviour("B1102", lane=Lane.SCALE, profiles=_PROFILES, needs=(Prerequisite.START, Prerequisite.CURSOR))
async def exact_delta(context: BehaviourContext) -> None:
    """The delta of twenty changes among thousands holds exactly these.

    1. Walk 20 machines to I, note the revision, Configure them, wait for C.
    2. The delta since the revision: exactly those 20 ids.
    """
    machine_ids = await context.idles(_CHANGED)
    before = (await context.all()).revision
    for machine_id in machine_ids:
        accepted(await context.calls.configure(machine_id, context.cluster()), "Configure")
    for machine_id in machine_ids:
        await context.settle(machine_id, C)
    found = listed(await context.calls.list(since=before), "delta").ids
    require(
        sorted(found) == sorted(machine_ids),
        f"the delta has {len(found)} machines, due were the {_CHANGED} that changed",
    )


@behaviour("B1103", lane=Lane.SCALE, profiles=_PROFILES, needs=(Prerequisite.START, Prerequisite.CURSOR))
async def pages_of_the_fleet(context: BehaviourContext) -> None:
    """Pages of a large fleet keep to the cap; a cursor that claims to continue them does.

    1. Pages of 500 over the fleet: as in B907.
    """
    await walk_pages(context, b"", _PAGE, await context.all())


@behaviour("B1104", lane=Lane.SCALE, profiles=_PROFILES, needs=(Prerequisite.START,))
async def soak(context: BehaviourContext) -> None:
    """Machines that are bound and freed for a while are clean each time.

    1. Walk 8 machines to I; for the soak time Configure and Drain each with grace 0, all at once.
    2. Clean at each I; at least one round each.
    """
    machine_ids = await context.idles(_SOAKED)
    end_s = context.now_s() + context.timings.soak_s

    async def rounds(machine_id: str) -> int:
        count = 0
        while context.now_s() < end_s or not count:
            await context.bind(machine_id, metadata={"round": str(count)})
            unbound(await context.unbind(machine_id, 0), f"round {count}")
            count += 1
        return count

    counts = await asyncio.gather(*(rounds(machine_id) for machine_id in machine_ids))
    context.note(f"{sum(counts)} rounds in {context.timings.soak_s:g} s")


@behaviour("B1105", lane=Lane.SCALE, profiles=_PROFILES, needs=(Prerequisite.START,), bare_metal=False)
async def book_keeping(context: BehaviourContext) -> None:
    """Machines created, deleted and resident add up at every step.

    1. For the soak time: Create a slot, at every other step Delete one again (where offered); after each step List.
    2. Created = deleted + resident, and the fleet keeps its size.
    """
    full = await context.all()
    idle_before = sum(machine.state == I for machine in full.machines)
    slots = sum(machine.state == S for machine in full.machines)
    end_s = context.now_s() + context.timings.soak_s
    resident: list[str] = []
    created = deleted = 0
    while (context.now_s() < end_s or not created) and created < slots // 2:
        machine_id = await context.slot()
        accepted(await context.calls.create(machine_id), "Create")
        await context.settle(machine_id, I)
        resident.append(machine_id)
        created += 1
        if context.capabilities.delete and created % 2 == 0:
            gone = resident.pop(0)
            accepted(await context.calls.delete(gone), "Delete")
            await context.settle(gone, S)
            deleted += 1
        listing = await context.all()
        found = sum(machine.state == I for machine in listing.machines) - idle_before
        require(created == deleted + found, f"created {created}, deleted {deleted}, but {found} are Idle")
        size = len(listing.machines)
        require(size == len(full.machines), f"the fleet has {size} records, due were {len(full.machines)}")
    context.note(f"{created} created, {deleted} deleted")


@behaviour("B1106", lane=Lane.SCALE, profiles=_PROFILES, needs=(Prerequisite.START,))
async def latencies(context: BehaviourContext) -> None:
    """Calls on a large fleet are answered in time.

    1. 120 Gets, 120 full Lists, 60 Creates, one after another: p99 at most 250 ms, 2 s, 250 ms. On bare metal the third
       kind is left out.
    """
    machine_ids = [machine.id for machine in (await context.all()).machines]

    async def full_list() -> None:
        listed(await context.calls.list(poll=True), "List all")

    async def get(number: int) -> None:
        await context.get(machine_ids[number % len(machine_ids)])

    await _timed(context, "Get", [partial(get, number) for number in range(_READS)])
    await _timed(context, "List", [full_list] * _READS)
    if context.bare_metal:
        return
    slots = await context.slots(_CREATES)

    async def create(machine_id: str) -> None:
        accepted(await context.calls.create(machine_id), "Create")

    await _timed(context, "Create", [partial(create, machine_id) for machine_id in slots])


@behaviour("B1107", lane=Lane.SCALE, profiles=_PROFILES, needs=(Prerequisite.START,))
async def warm_list(context: BehaviourContext) -> None:
    """A warm full List takes at most three seconds.

    1. List everything twice; the second takes at most 3 s.
    """
    await context.all()
    begin_s = context.now_s()
    await context.all()
    took_s = context.now_s() - begin_s
    require(took_s <= _WARM_LIST_S, f"a warm List took {took_s:.2f} s, allowed is {_WARM_LIST_S:g} s")


@behaviour("B1108", lane=Lane.SCALE, profiles=_PROFILES, needs=(Prerequisite.START,), bare_metal=False)
async def burst_of_creates(context: BehaviourContext) -> None:
    """A burst of Creates in a large fleet works out.

    1. Create 16 slots at once: different ids, all I within 30 s.
    """
    await created_in_parallel(context, context.settings.sizes.burst)


@behaviour("B1109", lane=Lane.SCALE, profiles=_PROFILES, needs=(Prerequisite.START,))
async def idle_stays_idle(context: BehaviourContext) -> None:
    """Idle machines of a large fleet stay Idle.

    1. Walk 8 machines to I; poll them for a quarter of the soak time (0.5 to 3 s): never transitional, never FAILED.
    """
    machine_ids = await context.idles(_SOAKED)
    end_s = context.now_s() + min(max(context.timings.soak_s / 4, 0.5), 3.0)
    while context.now_s() < end_s:
        for machine_id in machine_ids:
            machine = await context.get(machine_id)
            if machine.state in TRANSITIONAL or machine.state == F:
                fail(f"{machine_id} was Idle and shows {state_name(machine.state)}")
            in_state(machine, I, "while nothing was asked of it")
        await context.pause(context.timings.poll_s)


async def _timed(
    context: BehaviourContext, what: str, calls: Sequence[Callable[[], Awaitable[None]]]
) -> None:
    took_s = []
    for call in calls:
        begin_s = context.now_s()
        await call()
        took_s.append(context.now_s() - begin_s)
    found_s = percentile_99(took_s)
    context.note(f"p99 of {len(took_s)} {what} calls: {found_s * 1000:.1f} ms")
    due_s = _P99_S[what]
    require(found_s <= due_s, f"p99 of {what} is {found_s * 1000:.0f} ms, allowed is {due_s * 1000:.0f} ms")


def percentile_99(samples: Sequence[float]) -> float:
    """Return the smallest sample that at least 99 of 100 do not exceed."""
    ordered = sorted(samples)
    return ordered[max(-(-len(ordered) * 99 // 100) - 1, 0)]


SCALE: Final[tuple[Behaviour, ...]] = (
    valid_fleet,
    exact_delta,
    pages_of_the_fleet,
    soak,
    book_keeping,
    latencies,
    warm_list,
    burst_of_creates,
    idle_stays_idle,
)
