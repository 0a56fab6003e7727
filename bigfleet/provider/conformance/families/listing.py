"""Behaviours B901 to B909: listings, caps, cursors and deltas.

Must never: combine a cap with a cursor and demand that it can be continued; the contract forbids relying on it.
Rules: `providers#reads`, `providers#revision`, `providers#family-listing`; ADR-0004.
"""

from typing import Final

from bigfleet.provider.conformance.behaviour import Behaviour, Prerequisite, behaviour
from bigfleet.provider.conformance.caller import ListReply
from bigfleet.provider.conformance.checks import in_state, listed, require
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.states import REAL, C, I, S, state_name

_MAX_PAGES: Final = 50


@behaviour("B901")
async def by_state(context: BehaviourContext) -> None:
    """Listings by state are pure and add up.

    1. Walk a machine to C, so that there is more than one state.
    2. List each of the eight states: only that state.
    3. List S, I and C together: the union of the three, both ways, without duplicates.
    """
    await context.configured()
    found: dict[int, tuple[str, ...]] = {}
    for state in REAL:
        listing = listed(await context.calls.list([state]), f"List of {state_name(state)}")
        for machine in listing.machines:
            in_state(machine, state, f"List of {state_name(state)}")
        found[state] = listing.ids
    together = listed(await context.calls.list([S, I, C]), "List of S, I and C").ids
    _equal(together, (*found[S], *found[I], *found[C]), "List of S, I and C")


@behaviour("B902")
async def caps(context: BehaviourContext) -> None:
    """A cap is kept, and 0 means none.

    1. List with caps 1, 2 and 3: at most that many, not empty, all of them in the full list. Skipped when nothing is
       listed.
    2. List with cap 0: the full list.
    """
    full = await context.all()
    if not full.machines:
        context.skip("the provider lists no machine")
    for cap in (1, 2, 3):
        ids = listed(await context.calls.list(max_results=cap), f"List of at most {cap}").ids
        require(0 < len(ids) <= cap, f"List of at most {cap}: found {len(ids)} machines")
        _subset(ids, full.ids, f"List of at most {cap}")
    _equal((await context.all()).ids, full.ids, "List without a cap")


@behaviour("B903", needs=(Prerequisite.CURSOR,))
async def delta_holds_the_change(context: BehaviourContext) -> None:
    """A delta holds what has changed since.

    1. List and note the revision. Create a slot, wait for I; on bare metal Configure, C.
    2. The revision has changed, and a List since the noted one holds the machine.
    """
    (machine_id,) = await context.movables(1)
    before = (await context.all()).revision
    await context.move_and_settle(machine_id)
    delta = listed(await context.calls.list(since=before), "delta")
    require(delta.revision != before, f"the revision is {before!r} before and after a change")
    _subset((machine_id,), delta.ids, "delta after a change: the changed machine")


@behaviour("B904", needs=(Prerequisite.CURSOR,))
async def delta_since_head(context: BehaviourContext) -> None:
    """Nothing has changed since the head.

    1. List and note the revision.
    2. List since it, nothing done: empty.
    """
    await _empty_delta(context, (await context.all()).revision, "delta since the head")


@behaviour("B905", needs=(Prerequisite.CURSOR,))
async def old_cursors_stay_valid(context: BehaviourContext) -> None:
    """Every cursor yields all that came after it.

    1. Four creations, noting the revision before each: all of them differ. On bare metal four bindings.
    2. The delta since cursor k holds every machine changed after it.
    """
    machine_ids = await context.movables(4)
    cursors = []
    for machine_id in machine_ids:
        cursors.append((await context.all()).revision)
        await context.move_and_settle(machine_id)
    cursors.append((await context.all()).revision)
    require(len(set(cursors)) == len(cursors), f"{len(cursors)} revisions, some of them equal: {cursors}")
    for number, cursor in enumerate(cursors[:-1]):
        delta = listed(await context.calls.list(since=cursor), f"delta since cursor {number}")
        _subset(machine_ids[number:], delta.ids, f"delta since cursor {number}: changed machines")


@behaviour("B906")
async def junk_cursors(context: BehaviourContext) -> None:
    """An unreadable cursor is answered with a full listing.

    1. List without cursor, with ASCII junk, with binary junk, and with 4,096 bytes 0xDE: the full list, no error.
    """
    full = (await context.all()).ids
    for cursor in (b"", b"not-a-cursor", b"\x00\xff\xfe\x01", b"\xde" * 4096):
        listing = listed(await context.calls.list(since=cursor), f"List since {cursor[:12]!r}")
        _equal(listing.ids, full, f"List since {cursor[:12]!r}")


@behaviour("B907", needs=(Prerequisite.CURSOR,))
async def pages(context: BehaviourContext) -> None:
    """Pages keep to the cap; a cursor that claims to continue them does.

    1. Note the revision, five creations: the delta since it holds all five. On bare metal five bindings.
    2. Pages of 2 since it: within the cap, without duplicates, all of them in the delta. A page whose revision is the
       head ends the walk; one that continues must in the end cover all.
    """
    machine_ids = await context.movables(5)
    before = (await context.all()).revision
    for machine_id in machine_ids:
        await context.move_and_settle(machine_id)
    delta = listed(await context.calls.list(since=before), "delta")
    _subset(machine_ids, delta.ids, "delta: changed machines")
    await walk_pages(context, before, 2, delta)


@behaviour("B908", needs=(Prerequisite.CURSOR,))
async def quiet_cursor(context: BehaviourContext) -> None:
    """While nothing changes, a delta is empty.

    1. List and note the revision.
    2. List since it every 50 ms for 750 ms: always empty.
    """
    cursor = (await context.all()).revision
    end_s = context.now_s() + context.timings.cursor_window_s
    while context.now_s() < end_s:
        await _empty_delta(context, cursor, "delta while nothing happens")
        await context.pause(context.timings.cursor_poll_s)


@behaviour("B909", needs=(Prerequisite.CURSOR,))
async def tampered_cursors(context: BehaviourContext) -> None:
    """A cursor that was tampered with is not half understood.

    1. The head as cursor: an empty delta.
    2. The head with `!` behind it, with `~` before it, with two bytes behind it: the full list each.
    3. The head with its last bit flipped: no error, and only known ids.
    """
    full = await context.all()
    head = full.revision
    await _empty_delta(context, head, "delta since the head")
    for cursor in (head + b"!", b"~" + head, head + b"\x00\xff"):
        listing = listed(await context.calls.list(since=cursor), "List since a tampered cursor")
        _equal(listing.ids, full.ids, f"List since {cursor[-24:]!r}")
    flipped = listed(
        await context.calls.list(since=head[:-1] + bytes([head[-1] ^ 1])), "List since a flipped bit"
    )
    _subset(flipped.ids, full.ids, "List since a flipped bit")


async def walk_pages(context: BehaviourContext, since: bytes, cap: int, whole: ListReply) -> None:
    """Demand that pages keep to the cap, hold what the whole holds, and cover it if they claim to continue."""
    covered: set[str] = set()
    cursor = since
    for _ in range(_MAX_PAGES):
        page = listed(await context.calls.list(max_results=cap, since=cursor), f"page of {cap}")
        require(len(page.ids) <= cap, f"page of {cap}: found {len(page.ids)} machines")
        _subset(page.ids, whole.ids, f"page of {cap}")
        covered.update(page.ids)
        if page.revision in (whole.revision, cursor) or not page.ids:
            break
        cursor = page.revision
    if cursor != since:
        _subset(whole.ids, tuple(sorted(covered)), "pages that claim to continue: all machines")
    else:
        context.note("a cut listing carries the head revision and cannot be continued")


async def _empty_delta(context: BehaviourContext, cursor: bytes, what: str) -> None:
    delta = listed(await context.calls.list(since=cursor, poll=True), what)
    ids = ", ".join(delta.ids[:3])
    require(not delta.ids, f"{what}: found {len(delta.ids)} machines ({ids}), due was none")


def _subset(part: tuple[str, ...] | list[str], whole: tuple[str, ...], what: str) -> None:
    foreign = sorted(set(part) - set(whole))
    require(not foreign, f"{what}: {', '.join(foreign[:3])}{' …' if len(foreign) > 3 else ''} not among them")


def _equal(found: tuple[str, ...], due: tuple[str, ...], what: str) -> None:
    missing, foreign = sorted(set(due) - set(found)), sorted(set(found) - set(due))
    require(
        not missing and not foreign,
        f"{what}: lacks {len(missing)} machines {missing[:3]}, has {len(foreign)} too many {foreign[:3]}",
    )


LISTING: Final[tuple[Behaviour, ...]] = (
    by_state,
    caps,
    delta_holds_the_change,
    delta_since_head,
    old_cursors_stay_valid,
    junk_cursors,
    pages,
    quiet_cursor,
    tampered_cursors,
)
