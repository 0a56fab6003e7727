"""Whether the cluster can do without some of its nodes, whichever they are and in whatever order the scheduler places their pods.

Why: the operator can ask the shard for fewer machines, but not for which one to give back; and it does not place pods.
A node may go only if every pod on it finds a place although each other evicted pod spoils as many places as it can.
Must never: say yes where a pod on any of the nodes might be left without a place by its requests.
Rules: `operator#fragments-release`; ADR-0270.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice

from bigfleet.model.resources import Resources
from bigfleet.operator.core.rooms import Rooms, Workload


def can_spare(rooms: Rooms, candidates: Collection[str], count: int) -> bool:
    """Return whether any so many of the candidates could go together, and all their pods find a place on what is left."""
    if count > len(candidates):
        return False
    loads = {name: rooms.load(name) for name in candidates}
    guests = sum(nlargest(count, (rooms.guests(name) for name in candidates)))
    heaviest = {
        resource: sum(nlargest(count, (load.amount(resource) for load in loads.values())))
        for resource in sorted({resource for load in loads.values() for resource in load})
    }
    hosts: dict[Workload, list[str]] = {}
    for name in candidates:
        for workload in rooms.pods_on(name):
            if workload.is_daemon:
                continue
            if not workload.is_movable:
                return False
            hosts.setdefault(workload, []).append(name)
    evicted = _Evicted(frozenset(candidates), count, guests - 1, heaviest)
    return all(_always_finds_a_place(rooms, workload, names, evicted) for workload, names in hosts.items())


@dataclass(frozen=True, slots=True)
class _Evicted:
    """What a pod must count on: which nodes may go, how many, and what else is evicted at most."""

    candidates: frozenset[str]
    count: int
    others: int  # pods
    load: Mapping[str, int]


def _always_finds_a_place(rooms: Rooms, workload: Workload, hosts: Iterable[str], evicted: _Evicted) -> bool:
    found_at = rooms.places_for(workload)
    enough = evicted.count + evicted.others + 1
    places = list(islice(found_at, enough))
    if len(places) == enough:
        return True  # too many to go or be spoiled, so the others need not be looked for
    found = set(places)
    # The pod's own node goes in any case; whether it is among the places decides how many others may go of them.
    most = evicted.count if any(host in found for host in hosts) else evicted.count - 1
    left = len(places) - min(most, sum(1 for name in places if name in evicted.candidates))
    if left > evicted.others:
        return True  # each other evicted pod spoils one place at most
    if workload.apart:
        return False  # its own kind spoils places whatever is free there
    spoiled = sum(
        _spoiled(
            (rooms.free(name, resource) - amount for name in places),
            evicted.load.get(resource, 0) - amount,
        )
        for resource, amount in workload.requests.items()
    )
    return left > min(evicted.others, spoiled)


def _spoiled(margins: Iterable[int], load: int) -> int:
    """Return in how many places so much load can take more than the margin."""
    count = 0
    for margin in sorted(margins):
        load -= margin + 1
        if load < 0:
            break
        count += 1
    return count


def most_that_may_go(sizes: Iterable[Resources], freed: int, rows: int) -> int:
    """Return how many machines the shard may leave unclaimed when so many are no longer asked for.

    Each of so many later rows may take up what an earlier one leaves, and do without machines of its own for it: together
    less than that and one machine more. With machines of one size that is one for one.
    """
    known = list(sizes)
    if not known or not rows or all(size == known[0] for size in known):
        return min(freed, len(known))
    most = 0
    for resource in sorted({resource for size in known for resource in size}):
        amounts = sorted(size.amount(resource) for size in known)
        bound, total, count = (freed + rows) * amounts[-1], 0, 0
        for amount in amounts:
            total += amount
            if total >= bound:
                break
            count += 1
        most = max(most, count)
    return min(max(most, freed), len(known))
