"""Which pods are stuck for want of room, and how many machines they need.

Why: a machine is asked for only where it would help: not while one is on its way, not while the shard is still to cover the sum,
and not where a machine stands empty that the pod could use as well as the next one.
Must never: count a pod twice, or open more than one machine for pods of which none ever ran.
Rules: `operator#fragments-stuck`, `operator#fragments-size`; ADR-0269.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bigfleet.model.resources import ZERO, Resources
from bigfleet.operator.core.fragment_terms import (
    ON_ITS_WAY_S,
    PATIENCE,
    Class,
    Coming,
    FragmentRules,
    RowDemand,
    Unplaced,
    Why,
)
from bigfleet.operator.core.holds import Holds
from bigfleet.operator.core.packing import Bin, bin_of, fill, open_bins
from bigfleet.operator.core.rooms import NodeFacts, Rooms, Row, Workload, meets

_MOST_CLASSES = 10_000
_IDLE_S = 3600.0


@dataclass(slots=True)
class Wanted:
    """Machines that stuck pods of a row need on top of what is there and on its way."""

    machines: int = 0
    count: int = 0  # pods
    size: Resources = ZERO
    pods: dict[str, Workload] = field(default_factory=dict)
    opened: Counter[Class] = field(default_factory=Counter)


class Needs:
    """One look at a cluster: what its stuck pods need."""

    def __init__(self, rules: FragmentRules, rooms: Rooms) -> None:
        self._rules, self._rooms = rules, rooms
        self.holds = Holds[Class](_MOST_CLASSES)
        self.proven: dict[Class, int] = {}
        """How many machines may be asked for at once for pods of which none runs; else 1."""
        self.now_s = self.again_s = 0.0
        self.demand: Mapping[Row, RowDemand] = {}
        self.coming: Sequence[Coming] = ()
        self.why: Counter[Why] = Counter()
        self._bins: list[Bin] = []

    def begin(self, now_s: float, demand: Mapping[Row, RowDemand], coming: Iterable[Coming]) -> None:
        """Begin a look."""
        self.now_s, self.again_s, self.demand = now_s, now_s + _IDLE_S, demand
        self.why = Counter()
        self.coming = [one for one in coming if self._is_awaited(one)]
        self._bins = [bin_of(one.offers, one.labels) for one in self.coming]
        if len(self.proven) > _MOST_CLASSES:
            self.proven.clear()

    def by(self, moment_s: float) -> None:
        """Look again at that moment at the latest."""
        if moment_s > self.now_s:
            self.again_s = min(self.again_s, moment_s)

    def _is_awaited(self, one: Coming) -> bool:
        if self.now_s - one.since_s > ON_ITS_WAY_S:
            return False
        self.by(one.since_s + ON_ITS_WAY_S)
        return True

    def wanted(self, row: Row, pods: Iterable[Unplaced]) -> tuple[Wanted, bool]:
        """Return what the stuck pods of a row need, and whether pods of it wait for what is there."""
        wanted = Wanted()
        groups: dict[Workload, list[Unplaced]] = {}
        blocks = False
        newest_s: float | None = None
        for pod in pods:
            if newest_s is None:
                newest_s = self.newest_s(row)
            ripe_s = min(
                max(pod.since_s, newest_s) + self._rules.stuck_after_s,
                pod.since_s + PATIENCE * self._rules.stuck_after_s,
            )
            if ripe_s > self.now_s:
                blocks = True
                self.why[Why.YOUNG] += 1
                self.by(ripe_s)
            else:
                groups.setdefault(pod.workload, []).append(pod)
        if not groups:
            return wanted, blocks
        is_covered = self._is_covered(row)
        size = self._reference(row, self.demand[row].unit)
        for workload in sorted(groups, key=_by_size):
            stuck = groups[workload]
            blocks = self._sort_out(row, workload, stuck, wanted, size, is_covered=is_covered) or blocks
        return wanted, blocks

    def _sort_out(
        self,
        row: Row,
        workload: Workload,
        stuck: Sequence[Unplaced],
        wanted: Wanted,
        size: Resources,
        *,
        is_covered: bool,
    ) -> bool:
        """Put the stuck pods of a workload into bins, new ones where that may help; return whether they keep what there is."""
        if self._stands_empty(row, workload):
            # The scheduler leaves a machine empty that has room for it; it would do so with the next one.
            self.why[Why.ELSEWHERE] += len(stuck)
            return False
        left = fill(self._bins, workload, len(stuck))
        self.why[Why.ON_ITS_WAY] += len(stuck) - left
        if not left:
            return True
        if not is_covered:
            self.why[Why.SHORT] += left
            return True
        held_s = self.holds.until_s((row, workload.owner), self.now_s)
        if held_s is not None:
            self.why[Why.HELD] += left
            self.by(held_s)
            return False
        most = left
        if next(self._rooms.places_for(workload), None) is not None:
            most = 1  # it is not for want of room: one machine tells whether more would help
        elif not self._rooms.runs(workload):
            most = self.proven.get((row, workload.owner), 1)
        before = len(self._bins)
        self._opened(wanted, workload, left, size, most)
        wanted.machines += len(self._bins) - before
        wanted.pods.update({pod.uid: workload for pod in stuck})
        wanted.count += left
        wanted.size = size
        return True

    def _opened(self, wanted: Wanted, workload: Workload, count: int, size: Resources, most: int) -> None:
        key = (workload.row, workload.owner)
        # Several shapes of one owner share what an owner without a running pod may ask for.
        room = max(0, most - wanted.opened[key]) if most < count else most
        before = len(self._bins)
        open_bins(self._bins, size, workload, count, room)
        wanted.opened[key] += len(self._bins) - before

    def _stands_empty(self, row: Row, workload: Workload) -> bool:
        """Return whether a machine of the row with enough free has stood empty for as long as a pod may be stuck."""
        rooms, domain = self._rooms, self._rooms.domain_of(row)
        for name in rooms.matching(row, domain):
            facts = rooms.facts(name)
            if facts is None or not facts.in_service or rooms.guests(name):
                continue
            if rooms.has_free(workload, name):
                if self.now_s - rooms.since_s(name) >= self._rules.stuck_after_s:
                    return True
                self.by(rooms.since_s(name) + self._rules.stuck_after_s)
        return False

    def _is_covered(self, row: Row) -> bool:
        """Return whether the machines that meet the row could cover its sum; if not, more on top would not come either."""
        total, demand = ZERO, self.demand[row]
        for facts in self.machines_of(row, demand.unit if demand.least is None else demand.least):
            total += facts.counted
        for one in self.coming:
            if meets(row, one.labels):
                total += one.offers
        return total.covers(demand.total)

    def machines_of(self, row: Row, unit: Resources, domain: str | None = None) -> list[NodeFacts]:
        """Return the machines in service that meet a row and hold a unit, those of one domain of a gang only if it is given."""
        found = (self._rooms.facts(name) for name in self._rooms.matching(row, domain))
        return [
            facts
            for facts in found
            if facts is not None and facts.machine_id and facts.in_service and facts.counted.covers(unit)
        ]

    def _reference(self, row: Row, unit: Resources) -> Resources:
        """Return what an empty machine for the row offers: the smallest that the cluster has, else one unit."""
        offered = [self._rooms.left_by_daemons(facts.name) for facts in self.machines_of(row, unit)]
        return min(offered, key=lambda size: (size.amount("cpu"), sorted(size.items())), default=unit)

    def newest_s(self, row: Row) -> float:
        """Return when a node that meets a row last came into service."""
        rooms = self._rooms
        return max(
            (
                rooms.since_s(name)
                for name in rooms.matching(row)
                if (facts := rooms.facts(name)) and facts.in_service
            ),
            default=0.0,
        )


def _by_size(workload: Workload) -> tuple[object, ...]:
    """Order the largest first, as first fit does best with."""
    requests = workload.requests
    return (
        -requests.amount("cpu"),
        -requests.amount("memory"),
        sorted(requests.items()),
        workload.owner,
        workload.apart,
    )
