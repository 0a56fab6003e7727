"""The pre-pass of one cluster: its machines, and those on order for it, are credited to its needs.

Why: existing machines serve their own cluster only, so clusters are independent of each other but for gangs that count
on machines everybody may acquire. A run stops before each of those until it is that gang's turn among all clusters.
Must never: credit a Creating machine that was not ordered for this need (`engine#crediting`, `engine#stamps`), or
change once it is finished.
Rules: `engine#crediting`, `engine#gang-supply`, `engine#domain-order`, `engine#gang-crediting`, `engine#consumption`,
`engine#parked-gangs`; visiting order by `engine#prepass-order` and `engine#acquisition-order`.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property, partial
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from bigfleet.engine.amounts import Vector, all_of
from bigfleet.engine.fleet import ClusterMembers, Fleet
from bigfleet.engine.fold import NO_PLANS, PlannedNeed, Plans
from bigfleet.engine.key_values import Flags, Numbers
from bigfleet.engine.kinds import Kinds
from bigfleet.engine.phase1.domains import NO_DOMAIN, DomainSupply, choose_domain, covers
from bigfleet.engine.phase1.gang_supply import GangSupply
from bigfleet.model.need import Need

_NONE: Numbers = np.empty(0, dtype=np.intp)


class NeedOutcome(NamedTuple):  # a tuple, as a full pass makes tens of thousands of them
    """What the pre-pass did for one need."""

    credited: Numbers
    """Places among the cluster's members, in the order in which they were taken."""
    missing: Vector
    domain: str | None = None
    structural: bool = False
    waited: bool = False
    """Whether the choice hung on machines that everybody may acquire."""


_untouched = partial(tuple.__new__, NeedOutcome)


class ClusterRun:
    """One cluster's needs in visiting order, and who got what."""

    def __init__(self, fleet: Fleet, cluster: str, planned: Plans = NO_PLANS) -> None:
        self.kinds, self.stamps, self.planned = fleet.kinds, fleet.stamps, planned
        self.plans: Sequence[PlannedNeed] = planned.needs
        self.members = fleet.members.get(cluster, _NO_MEMBERS)
        self.outcomes: list[NeedOutcome] = []
        self.free: Flags = np.ones(self.members.rows.size, dtype=np.bool_)
        self._spent: set[int] = set()
        self.asks: tuple[object, Numbers] | None = None
        """The numbers of its sorts in a table of asks, and that table; whoever opens its needs keeps them here."""

    def again(self, fleet: Fleet) -> "ClusterRun":
        """A copy of a finished run, to be checked and, from some gang on, repeated."""
        run = ClusterRun(fleet, "", self.planned)
        run.members, run.outcomes, run.free = self.members, list(self.outcomes), self.free.copy()
        return run

    @cached_property
    def waits(self) -> bool:
        """Of a finished run: whether some choice hung on shared supply, and is looked at again when that changes."""
        return self.planned.gangs and any(outcome.waited for outcome in self.outcomes)

    @cached_property
    def open_visits(self) -> Numbers:
        """Of a finished run: the needs that miss something."""
        if self._untouched:
            wanted = np.array([bool(sort.total) for sort in self.planned.sorts], dtype=np.bool_)
            open_: Numbers = wanted[self.planned.sort_of].nonzero()[0]
            return open_
        missing = map(any, map(_missing, self.outcomes))
        return np.fromiter(missing, dtype=np.bool_, count=len(self.outcomes)).nonzero()[0]

    @property
    def _untouched(self) -> bool:
        """Whether nothing could be credited to any of its needs."""
        return not self.members.rows.size and not self.planned.gangs

    @cached_property
    def credited(self) -> tuple[Numbers, Numbers]:
        """Of a finished run: all members that are credited, and the visit of the need that holds each."""
        if self._untouched:
            return _NONE, _NONE
        parts = [outcome.credited for outcome in self.outcomes]
        counts = np.fromiter(map(len, parts), dtype=np.intp, count=len(parts))
        members = np.concatenate(parts) if parts else _NONE
        return members.astype(np.intp, copy=False), np.repeat(np.arange(counts.size), counts)

    def steps(self, supply: GangSupply) -> Iterator[tuple[object, ...]]:
        """Visit the needs that have no outcome yet; yield a gang's turn and go on when it has come."""
        if self._untouched and not self.outcomes:
            wanted = [plan.wanted for plan in self.plans]
            rest = (repeat(None), repeat(False), repeat(False))
            self.outcomes = list(map(_untouched, zip(repeat(_NONE), wanted, *rest)))
            return
        for place in range(len(self.outcomes), len(self.plans)):
            plan = self.plans[place]
            key = plan.need.profile.same_key
            if key is None:
                self.outcomes.append(self._ordinary(plan))
                continue
            outcome = self._served_by_its_own(plan, key)
            if outcome is None:
                gang = _Gang(self, plan, key, self.free)
                outcome = gang.decided_alone()
            if outcome is None:
                yield plan.turn
                outcome = gang.decided_with(supply)
            self.outcomes.append(outcome)

    def steps_again(self, supply: GangSupply) -> Iterator[tuple[object, ...]]:
        """Check the choices that depended on shared supply; repeat the run from the first that changes."""
        for place, before in enumerate(self.outcomes):
            if not before.waited:
                continue
            plan = self.plans[place]
            yield plan.turn
            gang = _Gang(self, plan, plan.need.profile.same_key or "", self._free_at(place))
            domain, structural = gang.choice(supply)
            if domain != before.domain:
                self.free = self._free_at(place)
                del self.outcomes[place:]
                self.outcomes.append(gang.decided_with(supply))
                yield from self.steps(supply)
                return
            if structural != before.structural:
                self.outcomes[place] = before._replace(structural=structural)
            gang.count_on(supply, before)

    def _free_at(self, place: int) -> Flags:
        """Which members were free when it was this need's turn."""
        free = self.free.copy()
        for outcome in self.outcomes[place:]:
            free[outcome.credited] = True
        return free

    def domain_supply(self, place: int, key: str, kinds: Kinds) -> DomainSupply:
        """What a gang's cluster held for it, by domain, when it was its turn; domains as `kinds` number them."""
        run = copy(self)
        run.kinds = kinds
        return _Gang(run, self.plans[place], key, self._free_at(place)).creditable()

    def creditable_count(self, place: int) -> int:
        """How many members could be credited to a need when it was its turn."""
        need, members, free = self.plans[place].need, self.members, self._free_at(place)
        if need.profile.same_key is not None:
            return int(self.domain_supply(place, need.profile.same_key, self.kinds).count.sum())
        eligible = self.kinds.eligible(need.profile, need.unit)
        bound = np.count_nonzero(eligible.take(members.kinds[: members.bound]) & free[: members.bound])
        ordered = members.on_order.get(need.profile.fingerprint, ())
        return int(bound) + sum(bool(free[at] and eligible[members.kinds[at]]) for at in ordered)

    def excess(self) -> Numbers:
        """Configured machines that no need holds, in keep order."""
        configured = self.members.configured
        left: Numbers = self.members.rows[:configured][self.free[:configured]].astype(np.intp)
        return left

    def rows(self, places: Numbers) -> Numbers:
        """ClusterMembers as rows of the inventory."""
        if not places.size:
            return _NONE  # one object for the many needs that hold nothing
        return self.members.rows[places].astype(np.intp)

    def _ordinary(self, plan: PlannedNeed) -> NeedOutcome:
        _, need, _, wanted, _ = plan
        if not any(wanted):
            return NeedOutcome(_NONE, wanted)
        members = self.members
        eligible = self.kinds.eligible(need.profile, need.unit)
        if not members.on_order:
            if id(eligible) in self._spent:
                return NeedOutcome(_NONE, wanted)
            flags = eligible.take(members.kinds)
            flags &= self.free
            taken, missing = self.take(need, flags.nonzero()[0], wanted)
            if any(missing):  # it took all that there was, and no machine becomes free while a run goes on
                self._spent.add(id(eligible))
            return NeedOutcome(taken, missing)
        flags = eligible.take(members.kinds[: members.bound])
        flags &= self.free[: members.bound]
        taken, missing = self.take(need, flags.nonzero()[0], wanted)
        ordered = members.on_order.get(need.profile.fingerprint)
        if ordered is not None and any(missing):
            fitting = [at for at in ordered if self.free[at] and eligible[members.kinds[at]]]
            more, missing = self.take(need, np.array(fitting, dtype=np.intp), missing)
            taken = np.concatenate([taken, more])
        return NeedOutcome(taken, missing)

    def _served_by_its_own(self, plan: PlannedNeed, key: str) -> NeedOutcome | None:
        """The outcome of a gang whose own machines cover it and are in one domain; nearly every gang at rest.

        No other domain then comes before that one, whatever could be acquired there (`engine#domain-order`).
        """
        need, members = plan.need, self.members
        stamps = self.stamps.own(need.profile.fingerprint, need.group)
        if len(stamps) != 1 or members.on_order or plan.parked or not any(plan.wanted):
            return None
        own = members.stamps == stamps[0]
        own &= self.free
        places = own.nonzero()[0]
        if not places.size:
            return None
        kinds = members.kinds.take(places)
        usable = self.kinds.usable(need.profile, need.unit, key).take(kinds)
        if not usable.all():
            places, kinds = places[usable], kinds[usable]
        values = self.kinds.values(key)
        codes = values.codes.take(kinds)
        if not places.size or not (codes == codes[0]).all():
            return None
        count, missing = self.kinds.sizes_for(need).cover(members.sizes.take(places), plan.wanted)
        if any(missing):
            return None
        taken = places[:count]
        self.free[taken] = False
        return NeedOutcome(taken, missing, values.values[codes[0]], structural=True)

    def take(self, need: Need, candidates: Numbers, missing: Vector) -> tuple[Numbers, Vector]:
        """Claim members for a need in this order until nothing is missing."""
        if not candidates.size:
            return _NONE, missing
        count, missing = self.kinds.sizes_for(need).cover(self.members.sizes.take(candidates), missing)
        taken = candidates[:count]
        self.free[taken] = False
        return taken, missing


class _Gang:
    """One gang at its turn, and the members that could be credited to it."""

    def __init__(self, run: ClusterRun, plan: PlannedNeed, key: str, free: Flags) -> None:
        self._run, self._plan, self._key = run, plan, key
        self._creditable: DomainSupply | None = None
        need, members, kinds = plan.need, run.members, run.kinds
        fingerprint, group = need.profile.fingerprint, need.group
        usable = kinds.usable(need.profile, need.unit, key)
        found = (usable.take(members.kinds[: members.bound]) & free[: members.bound]).nonzero()[0]
        stamps = run.stamps.own(fingerprint, group)
        ordered = members.on_order.get(fingerprint) if members.on_order else None
        if ordered is not None:
            mine = [
                at
                for at in ordered
                if free[at] and usable[members.kinds[at]] and int(members.stamps[at]) in stamps
            ]
            found = np.concatenate([found, np.array(mine, dtype=np.intp)])
        self._members = found
        self._values = kinds.values(key)
        self._codes = self._values.codes.take(members.kinds.take(found))
        at_stamps = members.stamps.take(found)
        if len(stamps) == 1:
            self._own: Flags = at_stamps == stamps[0]
        else:
            self._own = np.isin(at_stamps, stamps) if stamps else np.zeros(found.size, dtype=np.bool_)

    def decided_alone(self) -> NeedOutcome | None:
        """The outcome if the cluster's own machines settle it, whatever else could be acquired.

        They do if there is just one domain in which they cover the gang: no other then comes before it
        (`engine#domain-order`). And parked gangs look no further.
        """
        if self._plan.parked:
            supply = self.creditable()
            domain = choose_domain(supply, self._plan.wanted)
            if domain == NO_DOMAIN:
                return NeedOutcome(_NONE, self._plan.wanted)
            return self._credited(domain, covers(supply.total[domain], self._plan.wanted), waited=False)
        if not any(self._plan.wanted) or not self._members.size:
            return None
        held = self.creditable().creditable
        covering = all_of(held >= np.array(self._plan.wanted, dtype=held.dtype)).nonzero()[0]
        if covering.size != 1:
            return None
        return self._credited(int(covering[0]), structural=True, waited=False)

    def choice(self, supply: GangSupply) -> tuple[str | None, bool]:
        """The domain in which the gang gathers, and whether it could be held there."""
        domain, structural = self._choice(supply)
        return (None if domain == NO_DOMAIN else self._values.values[domain]), structural

    def _choice(self, supply: GangSupply) -> tuple[int, bool]:
        there = self.creditable().with_shared(supply.now(self._plan, self._key))
        domain = choose_domain(there, self._plan.wanted)
        return domain, domain != NO_DOMAIN and covers(there.total[domain], self._plan.wanted)

    def decided_with(self, supply: GangSupply) -> NeedOutcome:
        """The outcome, counting what may be acquired."""
        domain, structural = self._choice(supply)
        if domain == NO_DOMAIN:
            return NeedOutcome(_NONE, self._plan.wanted, waited=True)
        outcome = self._credited(domain, structural, waited=True)
        self.count_on(supply, outcome)
        return outcome

    def count_on(self, supply: GangSupply, outcome: NeedOutcome) -> None:
        """Mark what the gang will acquire, so that no gang after it counts on the same machines."""
        if outcome.domain is not None and any(outcome.missing):
            supply.consume(self._plan, self._key, self._values.code(outcome.domain), outcome.missing)

    def _credited(self, domain: int, structural: bool, *, waited: bool) -> NeedOutcome:
        here = self._codes == domain
        # `engine#gang-crediting`
        ordered = np.concatenate([self._members[here & self._own], self._members[here & ~self._own]])
        taken, missing = self._run.take(self._plan.need, ordered, self._plan.wanted)
        return NeedOutcome(taken, missing, self._values.values[domain], structural, waited)

    def creditable(self) -> DomainSupply:
        """The members added up by domain."""
        if self._creditable is None:
            self._creditable = self._added_up()
        return self._creditable

    def _added_up(self) -> DomainSupply:
        sizes = self._run.kinds.sizes_for(self._plan.need).matrix
        domains = len(self._values.values)
        count = np.bincount(self._codes, minlength=domains)
        held = np.zeros((domains, sizes.shape[1]), dtype=sizes.dtype)
        own = np.zeros_like(held)
        capacities = sizes.take(self._run.members.sizes.take(self._members), axis=0)
        np.add.at(held, self._codes, capacities)
        np.add.at(own, self._codes[self._own], capacities[self._own])
        return DomainSupply(count, held, held, own)


_missing = attrgetter("missing")
_NO_MEMBERS = ClusterMembers(np.empty(0, dtype=np.int32), _NONE, _NONE, _NONE, 0, 0, {})
