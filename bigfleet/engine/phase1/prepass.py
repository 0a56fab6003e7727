"""The pre-pass: existing machines, and those on order, are credited to the needs they serve; gangs get their domain.

Why: it is the only place where existing supply is attributed; Phase 3 reclaims exactly what it leaves unclaimed.
Called by: the cycle, first step of Phase 1.
Must never: credit a machine of another cluster, or a Creating one that was not ordered for this need's cluster (E7).
Rules: decision-engine 7.2 to 7.7; visiting order by decision E16.
"""

import numpy as np

from bigfleet.engine.amounts import Vector, first_covering
from bigfleet.engine.index import Flags, MachineIndex, Numbers
from bigfleet.engine.phase1.domains import NO_DOMAIN, DomainSupply, candidates, choose_domain, satisfiable
from bigfleet.engine.phase1.state import Phase1
from bigfleet.model.machine import BOUND_STATES, Assignment, MachineState
from bigfleet.model.need import Need
from bigfleet.model.resources import Resources

_NONE: Numbers = np.empty(0, dtype=np.intp)


def run_prepass(phase: Phase1) -> None:
    """Visit every need once, the highest priority first."""
    needs = [item.need for item in phase.needs]
    order = sorted(
        range(len(needs)),
        key=lambda place: (-needs[place].profile.priority, needs[place].profile.same_key is None, place),
    )
    existing = _Existing(phase.index)
    pools = _GangPools(phase.index)
    for place in order:
        if needs[place].profile.same_key is None:
            _credit_ordinary(phase, existing, place)
        else:
            _credit_gang(phase, existing, pools, place)


def _credit_ordinary(phase: Phase1, existing: "_Existing", place: int) -> None:
    need = phase.needs[place].need
    eligible = phase.index.eligible(need)
    bound = existing.bound(need.cluster)
    phase.take(place, phase.free(bound[eligible[phase.index.kind[bound]]]))
    ordered = existing.on_order(need.cluster, need.profile.fingerprint)
    phase.take(place, phase.free(ordered[eligible[phase.index.kind[ordered]]]))


def _credit_gang(phase: Phase1, existing: "_Existing", pools: "_GangPools", place: int) -> None:
    index, need, parked = phase.index, phase.needs[place].need, phase.parked[place]
    key = need.profile.same_key
    assert key is not None  # noqa: S101  the caller sorts gangs from ordinary needs
    values = index.values(key)
    usable = index.eligible(need) & (values.codes >= 0)
    members = np.concatenate(
        [
            existing.bound(need.cluster),
            existing.on_order_for_gang(need.cluster, need.profile.fingerprint, need.group),
        ]
    )
    members = phase.free(members[usable[index.kind[members]]])
    own = existing.own(members, need)
    wanted = phase.missing[place]
    supply = _creditable(index, members, own, values.codes, len(values.values))
    if not parked:
        pools.add_acquirable(need, key, supply)
    domain = choose_domain(supply, wanted)
    if domain == NO_DOMAIN:
        return
    phase.domain[place] = domain
    phase.structural[place] = bool(satisfiable(supply, wanted)[domain])
    phase.candidates[place] = candidates(supply, wanted, values.values)
    here = values.codes[index.kind[members]] == domain
    phase.take(place, np.concatenate([members[here & own], members[here & ~own]]))  # incumbents first (7.5)
    if not parked:
        pools.consume(need, key, domain, phase.missing[place])


def _creditable(
    index: MachineIndex, members: Numbers, own: Flags, codes: Numbers, domains: int
) -> DomainSupply:
    shape = (domains, len(index.scale.names))
    supply = DomainSupply(
        np.zeros(domains, dtype=np.int64),
        np.zeros(shape, dtype=index.scale.dtype),
        np.zeros(shape, dtype=index.scale.dtype),
        np.zeros(shape, dtype=index.scale.dtype),
    )
    at, capacity = codes[index.kind[members]], index.capacity_of(members)
    np.add.at(supply.count, at, 1)
    np.add.at(supply.creditable, at, capacity)
    np.add.at(supply.own, at[own], capacity[own])
    supply.total = supply.creditable.copy()
    return supply


class _Existing:
    """Machines that serve a cluster or are on order for it, in the order in which they are credited."""

    def __init__(self, index: MachineIndex) -> None:
        self._index = index
        bound = index.in_state(*BOUND_STATES)
        configuring = index.state[bound] == MachineState.CONFIGURING
        # Keep order: price, then reclamation penalty descending, then id; Configured before Configuring.
        order = np.lexsort(
            (
                bound,
                -index.reclamation_penalty[bound],
                index.price[index.kind[bound]],
                configuring,
                index.cluster[bound],
            )
        )
        bound = bound[order]
        clusters = index.cluster[bound]
        starts = np.flatnonzero(np.diff(clusters, prepend=-1))
        self._bound = {
            int(clusters[start]): part
            for start, part in zip(starts, np.split(bound, starts[1:]), strict=bool(starts.size))
        }
        self._on_order: dict[tuple[str, str], list[int]] = {}
        for machine in index.in_state(MachineState.CREATING).tolist():
            stamp = index.assignments[index.assignment[machine]]
            if stamp.cluster:
                self._on_order.setdefault((stamp.cluster, stamp.fingerprint), []).append(machine)

    def bound(self, cluster: str) -> Numbers:
        return self._bound.get(self._index.cluster_number(cluster), _NONE)

    def on_order(self, cluster: str, fingerprint: str) -> Numbers:
        return np.array(self._on_order.get((cluster, fingerprint), []), dtype=np.intp)

    def on_order_for_gang(self, cluster: str, fingerprint: str, group: str) -> Numbers:
        ordered = self.on_order(cluster, fingerprint).tolist()
        return np.array(
            [machine for machine in ordered if self._stamp(machine).group == group], dtype=np.intp
        )

    def own(self, machines: Numbers, need: Need) -> Flags:
        """Which machines are stamped for exactly this gang."""
        stamps = map(self._stamp, machines.tolist())
        fingerprint, group = need.profile.fingerprint, need.group
        flags = (stamp.fingerprint == fingerprint and stamp.group == group for stamp in stamps)
        return np.fromiter(flags, dtype=np.bool_, count=machines.size)

    def _stamp(self, machine: int) -> Assignment:
        return self._index.assignments[int(self._index.assignment[machine])]


class _Pool:
    """Idle and Speculative machines that gangs of one kind could acquire, added up by domain."""

    def __init__(self, index: MachineIndex, machines: Numbers, codes: Numbers, domains: int) -> None:
        self.machines, self.codes = machines, codes
        self.count = np.zeros(domains, dtype=np.int64)
        self.total: Vector = np.zeros((domains, len(index.scale.names)), dtype=index.scale.dtype)
        np.add.at(self.count, codes, 1)
        np.add.at(self.total, codes, index.capacity_of(machines))
        self.seen = 0  # how much of the log of consumed machines is taken off already


class _GangPools:
    """What gangs visited later may still count on: acquirable machines that no earlier gang will take (7.6)."""

    def __init__(self, index: MachineIndex) -> None:
        self._index = index
        self._pools: dict[tuple[str, Resources, str], _Pool] = {}
        self._consumed = np.zeros(len(index), dtype=np.bool_)
        self._log: list[int] = []

    def add_acquirable(self, need: Need, key: str, supply: DomainSupply) -> None:
        pool = self._pool(need, key)
        supply.count = supply.count + pool.count
        supply.total = supply.total + pool.total

    def consume(self, need: Need, key: str, domain: int, missing: Vector) -> None:
        """Mark what the gang will take in its domain; by id, or for pinned types type by type, cheapest first."""
        if not (missing > 0).any():
            return
        index, pool = self._index, self._pool(need, key)
        here = pool.machines[(pool.codes == domain) & ~self._consumed[pool.machines]]
        kinds = index.kind[here]
        types = need.profile.pinned_types
        by_type = np.zeros(here.size, dtype=np.intp)
        price = np.zeros(here.size)
        if types:
            rank = {name: at for at, name in enumerate(types)}
            by_type = np.array([rank[name] for name in index.instance_type[kinds].tolist()], dtype=np.intp)
            price = index.price[kinds]
        speculative = index.state[here] == MachineState.SPECULATIVE
        ordered = here[np.lexsort((here, price, by_type, speculative))]
        taken = ordered[: first_covering(index.capacity_of(ordered), missing)]
        self._consumed[taken] = True
        self._log.extend(taken.tolist())

    def _pool(self, need: Need, key: str) -> _Pool:
        index = self._index
        name = (need.profile.requirements_text, need.unit, key)
        pool = self._pools.get(name)
        if pool is None:
            values = index.values(key)
            flags = index.acquirable(need) & (values.codes >= 0)
            machines = index.in_state(MachineState.IDLE, MachineState.SPECULATIVE)
            machines = machines[flags[index.kind[machines]] & ~self._consumed[machines]]
            pool = _Pool(index, machines, values.codes[index.kind[machines]], len(values.values))
            pool.seen = len(self._log)
            self._pools[name] = pool
        elif pool.seen < len(self._log):
            gone = np.array(self._log[pool.seen :], dtype=np.intp)
            gone = gone[np.isin(gone, pool.machines)]
            codes = index.values(key).codes[index.kind[gone]]
            np.subtract.at(pool.count, codes, 1)
            np.subtract.at(pool.total, codes, index.capacity_of(gone))
            pool.seen = len(self._log)
        return pool
