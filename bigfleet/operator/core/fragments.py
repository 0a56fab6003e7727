"""What a cluster asks for on top of the sum of its demand, so that every pod finds a node.

Why: the shard buys for sums and never models packing (ADR-0045). What is free on each node may be too small for a pod although
the sum would do. Here, where pods, nodes and the scheduler's verdicts are known, such pods are noticed, and machines are asked
for by number: one unit of the row per machine, and one machine per unit, so the shard obtains exactly so many.
Called by: the operator, after changes and when `FragmentsAnswer.look_again_s` has come.
Must never: exceed the share of the demand, ask for a machine that would stand as empty as one that is there, or ask for fewer
while a pod might then be left without a place.
Rules: `operator#fragments`; ADR-0269, ADR-0270.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bigfleet.model.resources import ZERO, Resources
from bigfleet.operator.core.fragment_needs import Needs, Wanted
from bigfleet.operator.core.fragment_terms import (
    ANSWER_S,
    BETWEEN_RELEASES_S,
    KEEP_S,
    LONGEST_KEEP_S,
    NO_HELP,
    NOT_BOUGHT,
    ON_ITS_WAY_S,
    WRONG_WITHIN_S,
    Class,
    Coming,
    Extra,
    FragmentRules,
    FragmentsAnswer,
    RowDemand,
    Unplaced,
    Why,
    order_of,
)
from bigfleet.operator.core.holds import Hold
from bigfleet.operator.core.release import can_spare, most_that_may_go
from bigfleet.operator.core.rooms import Rooms, Row, Workload, meets

_MOST_ROWS: Final = 1_000


@dataclass(slots=True)
class _Raise:
    at_s: float
    asked: int
    known: frozenset[str]  # machines of the row when it was made
    pods: dict[str, Workload]
    total: Resources  # of the row, as small as it has been since
    shrank: bool = False
    seen_to_run: set[Class] = field(default_factory=set)
    arrived: int = 0


@dataclass(slots=True)
class _Kept:
    machines: int = 0
    size: Resources = ZERO
    raised: _Raise | None = None
    changed_s: float = 0.0  # last raise
    released_s: float | None = None
    keep_s: float = KEEP_S


class Fragments:
    """The machines that one cluster asks for on top of its demand."""

    def __init__(self, rules: FragmentRules, rooms: Rooms) -> None:
        self._rules, self._rooms = rules, rooms
        self._kept: dict[Row, _Kept] = {}
        self._needs = Needs(rules, rooms)
        self._limit = ZERO

    def look(
        self,
        now_s: float,
        demand: Mapping[Row, RowDemand],
        unplaced: Iterable[Unplaced],
        coming: Sequence[Coming],
        *,
        unseen: Collection[Row] = (),
    ) -> FragmentsAnswer:
        """Return what is asked for now. `unseen` are rows with pods that the scheduler has not looked at yet."""
        needs = self._needs
        needs.begin(now_s, demand, coming)
        self._limit = self._share_of_demand()
        waiting: dict[Row, list[Unplaced]] = {}
        for pod in unplaced:
            if pod.workload.row is None or pod.workload.row not in demand:
                needs.why[Why.NO_REQUEST] += 1
            else:
                waiting.setdefault(pod.workload.row, []).append(pod)
        for row in [row for row, kept in self._kept.items() if row not in demand and kept.size]:
            self._end_without_demand(self._kept[row])
        for row in sorted({*waiting, *self._kept} & demand.keys(), key=order_of):
            kept = self._kept.setdefault(row, _Kept())
            if not row.profile.same_key:
                kept.size = demand[row].unit
            if kept.raised is not None:
                self._judge(row, kept, kept.raised, waiting.get(row, ()))
            wanted, blocks = needs.wanted(row, waiting.get(row, ()))
            if wanted.machines and (kept.raised is None or kept.raised.arrived >= kept.raised.asked):
                self._raise(row, kept, wanted)
            elif wanted.machines:
                needs.why[Why.ON_ITS_WAY] += wanted.count
                needs.by(kept.raised.at_s + ANSWER_S if kept.raised else now_s)
            if kept.machines and kept.raised is None and not blocks and row not in unseen:
                self._release(row, kept)
        self._bound()
        self._forget()
        return FragmentsAnswer(
            self._extra(), {why: count for why, count in needs.why.items() if count}, needs.again_s
        )

    def begin(self, now_s: float, demand: Mapping[Row, RowDemand]) -> FragmentsAnswer:
        """Ask at the start of a process for the machines that are there beyond what the sums need.

        What the process before it asked for is not known any more. To ask for nothing would give back machines with pods on them.
        """
        needs = self._needs
        needs.begin(now_s, demand, ())
        self._limit = self._share_of_demand()
        taken: set[str] = set()
        # Rows that share machines are judged together, by what all of them ask for.
        for row in sorted(demand, key=lambda one: (-len(self._rooms.matching(one)), order_of(one))):
            machines = needs.machines_of(row, ZERO)
            if not machines or not taken.isdisjoint(facts.name for facts in machines):
                continue
            names = {facts.name for facts in machines}
            taken |= names
            sharing = [one for one in demand if not names.isdisjoint(self._rooms.matching(one))]
            first = max(sharing, key=lambda one: (demand[one].total.amount("cpu"), order_of(one)))
            if first.profile.same_key is not None:
                continue
            total = ZERO
            for one in sharing:
                total += demand[one].total
            kept = self._kept.setdefault(first, _Kept(changed_s=now_s, size=demand[first].unit))
            spare = _spare([facts.counted for facts in machines], total)
            kept.machines = max(min(spare, self._room_under(kept)), 0)
        self._bound()
        return FragmentsAnswer(self._extra(), {}, now_s)

    def pause(self, seconds: float) -> None:
        """Let time in which the shard heard nothing count for nothing."""
        for kept in self._kept.values():
            kept.changed_s += seconds
            if kept.raised is not None:
                kept.raised.at_s += seconds

    # ---- raising

    def _raise(self, row: Row, kept: _Kept, wanted: Wanted) -> None:
        if row.profile.same_key and not kept.machines:
            kept.size = self._gang_size(row, self._needs.demand[row])
        if kept.size.is_zero:
            self._needs.why[Why.SHORT] += wanted.count  # no machine of the gang's domain holds its unit
            return
        allowed = min(wanted.machines, self._room_under(kept))
        if allowed < 1:
            self._needs.why[Why.LIMITED] += wanted.count
            return
        self._needs.why[Why.LIMITED if allowed < wanted.machines else Why.ASKED] += wanted.count
        if kept.released_s is not None and self._needs.now_s - kept.released_s < max(
            WRONG_WITHIN_S, kept.keep_s
        ):
            kept.keep_s = min(2 * kept.keep_s, LONGEST_KEEP_S)
        kept.released_s = None
        kept.machines += allowed
        kept.changed_s = self._needs.now_s
        kept.raised = _Raise(
            self._needs.now_s, allowed, self._ids_of(row), dict(wanted.pods), self._needs.demand[row].total
        )
        self._needs.by(self._needs.now_s + ANSWER_S)

    def _gang_size(self, row: Row, demand: RowDemand) -> Resources:
        """Return what one more machine adds to the total of a gang: all that the largest counts as, where that decides.

        The sum is credited with whole machines, so less might bring none. What decides is the resource of which the gang
        fills the most machines; the others would only use up the share.
        """
        size = ZERO
        for facts in self._needs.machines_of(row, demand.unit, self._rooms.domain_of(row)):
            counted = facts.counted.at_most(demand.counted) if demand.counted else facts.counted
            size = size.maximum(counted)
        filled = {
            name: amount / size.amount(name) for name, amount in demand.total.items() if size.amount(name)
        }
        most = max(filled.values(), default=0.0)
        return Resources((name, size.amount(name)) for name, part in filled.items() if 2 * part > most)

    def _ids_of(self, row: Row) -> frozenset[str]:
        nodes = (self._rooms.facts(name) for name in self._rooms.matching(row))
        ids = {facts.machine_id for facts in nodes if facts is not None and facts.machine_id}
        return frozenset(ids | {one.machine_id for one in self._needs.coming if meets(row, one.labels)})

    def _judge(self, row: Row, kept: _Kept, made: _Raise, pods: Iterable[Unplaced]) -> None:
        """See what a raise has brought; it ends when all its machines serve, or none can come any more."""
        total = self._needs.demand[row].total
        if not total.covers(made.total):
            made.shrank = True
        made.total = total
        made.seen_to_run.update(
            (workload.row, workload.owner)
            for uid, workload in made.pods.items()
            if self._rooms.is_placed(uid)
        )
        new = self._ids_of(row) - made.known
        made.arrived = min(len(new), made.asked)
        if made.arrived < made.asked:
            if self._needs.now_s < made.at_s + ANSWER_S:
                self._needs.by(made.at_s + ANSWER_S)
                return
            self._give_up(row, kept, made)
            self._conclude(made, pods, NOT_BOUGHT)
            made.asked = made.arrived
            if not made.arrived:
                kept.raised = None
                return
        if self._needs.now_s < made.at_s + ON_ITS_WAY_S and any(
            one.machine_id in new for one in self._needs.coming
        ):
            self._needs.by(made.at_s + ON_ITS_WAY_S)
            return
        settled_s = self._needs.newest_s(row) + self._rules.stuck_after_s
        if self._needs.now_s < min(settled_s, made.at_s + ON_ITS_WAY_S):
            self._needs.by(settled_s)
            return
        self._conclude(made, pods, NO_HELP)
        kept.raised = None

    def _give_up(self, row: Row, kept: _Kept, made: _Raise) -> None:
        """Take back what no machine came for, unless that might take away one that is there.

        Where machines differ in size the shard may serve a raise with one that the sum could do without. It brings none
        then, and pods may run on it.
        """
        missing = made.asked - made.arrived
        is_sure = not made.shrank and self._must_be_short(row, kept)
        if is_sure or can_spare(self._rooms, *self._that_may_go(row, missing)):
            kept.machines -= missing

    def _must_be_short(self, row: Row, kept: _Kept) -> bool:
        """Return whether the machines of a row are too few for its sum beside those for fragments, whichever those are."""
        if row.profile.same_key is not None:
            return False
        demand = self._needs.demand[row]
        machines = [facts.counted for facts in self._needs.machines_of(row, ZERO)]
        for name, amount in demand.total.items():
            amounts = sorted(size.amount(name) for size in machines)
            if sum(amounts[kept.machines :]) < amount:
                return True
        return len(machines) < kept.machines

    def _conclude(self, made: _Raise, pods: Iterable[Unplaced], hold: Hold) -> None:
        """Hold back the classes of a raise of which no pod was seen to run since; the others may ask for more."""
        stuck = {pod.uid for pod in pods}
        for key in sorted({(w.row, w.owner) for w in made.pods.values()}, key=_class_order):
            if key in made.seen_to_run:
                self._needs.holds.end(key)
                self._needs.proven[key] = min(2 * self._needs.proven.get(key, 1), 1024)
            elif hold is NOT_BOUGHT or any(
                uid in stuck or not self._rooms.is_placed(uid)
                for uid, workload in made.pods.items()
                if (workload.row, workload.owner) == key
            ):
                self._needs.holds.begin(key, hold, self._needs.now_s)

    def _end_without_demand(self, kept: _Kept) -> None:
        """Forget the machines of a row that nobody asks for any more, and hold back pods that went before they ran."""
        if kept.raised is not None:
            self._conclude(kept.raised, (), NOT_BOUGHT)
        kept.machines, kept.raised, kept.size = 0, None, ZERO

    # ---- releasing

    def _release(self, row: Row, kept: _Kept) -> None:
        due_s = kept.changed_s + kept.keep_s
        if kept.released_s is not None:
            due_s = max(due_s, kept.released_s + BETWEEN_RELEASES_S)
        if self._needs.now_s < due_s:
            self._needs.by(due_s)
            return
        self._needs.by(self._needs.now_s + BETWEEN_RELEASES_S)
        if any(meets(row, one.labels) for one in self._needs.coming) or self._has_leaving(row):
            return
        step = kept.machines
        while step:
            if can_spare(self._rooms, *self._that_may_go(row, step)):
                if kept.released_s is not None and self._needs.now_s - kept.released_s >= max(
                    WRONG_WITHIN_S, kept.keep_s
                ):
                    kept.keep_s = KEEP_S  # the last one has stood
                kept.machines -= step
                kept.released_s = self._needs.now_s
                return
            step //= 2

    def _has_leaving(self, row: Row) -> bool:
        found = (self._rooms.facts(name) for name in self._rooms.matching(row))
        return any(facts is not None and facts.machine_id and not facts.in_service for facts in found)

    def _that_may_go(self, row: Row, freed: int) -> tuple[set[str], int]:
        """Return which nodes may go when the row asks for so many machines less, and how many of them at most.

        What the row leaves may serve a row of the same or a lower priority, which then does without another machine.
        """
        names = {facts.name for facts in self._needs.machines_of(row, ZERO)}
        demand = self._needs.demand
        named = set(demand[row].total) | set(demand[row].unit)
        others = {
            other.profile.requirements_text: other
            for other in demand
            if other.profile.priority <= row.profile.priority
        }
        later = 0
        grew = True
        while grew:
            grew = False
            for text, other in sorted(others.items()):
                machines = {facts.name for facts in self._needs.machines_of(other, ZERO)}
                if names.isdisjoint(machines):
                    continue
                names |= machines
                grew = True
                del others[text]
        for other in demand:
            if other.profile.priority <= row.profile.priority and not names.isdisjoint(
                self._rooms.matching(other)
            ):
                later += 1
                named |= set(demand[other].total) | set(demand[other].unit)
        sizes = [
            Resources((name, amount) for name, amount in facts.counted.items() if name in named)
            for facts in map(self._rooms.facts, sorted(names))
            if facts is not None
        ]
        return names, most_that_may_go(sizes, freed, later)

    # ---- bounds

    def _share_of_demand(self) -> Resources:
        total: dict[str, int] = {}
        for row in self._needs.demand.values():
            for name, amount in row.total.items():
                total[name] = total.get(name, 0) + amount
        thousandths = int(self._rules.share * 1000)
        return Resources((name, amount * thousandths // 1000) for name, amount in total.items())

    def _asked_for(self) -> Resources:
        total = ZERO
        for kept in self._kept.values():
            if kept.machines:
                total += kept.size.scaled(kept.machines)
        return total

    def _room_under(self, kept: _Kept) -> int:
        """Return how many more machines the share allows; a cluster that has none yet may have one."""
        asked = self._asked_for()
        left = min(
            (self._limit.amount(name) - asked.amount(name)) // amount for name, amount in kept.size.items()
        )
        return max(left, 1 if asked.is_zero and self._rules.share else 0)

    def _bound(self) -> None:
        """Take back what is above the share, from the rows of the lowest priority first; one machine may stay."""
        for row in sorted(self._kept, key=order_of, reverse=True):
            kept = self._kept[row]
            while kept.machines and not self._is_within():
                kept.machines -= 1

    def _is_within(self) -> bool:
        count = sum(kept.machines for kept in self._kept.values())
        return count <= (1 if self._rules.share else 0) or self._limit.covers(self._asked_for())

    # ---- memory

    def _extra(self) -> dict[Row, Extra]:
        return {
            row: Extra(kept.machines, kept.size, for_fragments=row.profile.same_key is None)
            for row, kept in sorted(self._kept.items(), key=lambda item: order_of(item[0]))
            if kept.machines and not kept.size.is_zero
        }

    def _forget(self) -> None:
        idle = [row for row, kept in self._kept.items() if not kept.machines and kept.raised is None]
        for row in idle:
            kept = self._kept[row]
            is_fresh = kept.released_s is not None and self._needs.now_s - kept.released_s < LONGEST_KEEP_S
            if not is_fresh or len(self._kept) > _MOST_ROWS:
                del self._kept[row]


def _class_order(key: Class) -> tuple[tuple[int, str, str], str]:
    return (order_of(key[0]) if key[0] is not None else (0, "", ""), key[1])


def _spare(sizes: list[Resources], total: Resources) -> int:
    """Return how many machines a sum can do without, whichever they are; none if all together do not cover it."""
    spare = len(sizes)
    for name, amount in total.items():
        left, count = 0, 0
        for size in sorted(size.amount(name) for size in sizes):
            if left >= amount:
                break
            left, count = left + size, count + 1
        spare = min(spare, len(sizes) - count if left >= amount else 0)
    return spare
