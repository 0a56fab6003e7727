"""The machines as the phases look at them, kept from cycle to cycle and brought up to date by what changed.

Why: of half a million machines a few hundred change between two cycles. Columns are compared with those of the last
snapshot, which cannot miss a change, and only clusters that a changed machine left or joined are put in order again.
Must never: decide anything, or change an array that it has handed out.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.key_values import Numbers, wide_values
from bigfleet.engine.kinds import Kinds
from bigfleet.engine.pools import MovedMachines, StatePool
from bigfleet.engine.radix import stable_order
from bigfleet.engine.stamps import Stamps
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.machine import BOUND_STATES, MachineState
from bigfleet.model.profile import HOST_NAME_KEY

Rows = NDArray[np.int32]
_COMPARED = ("state", "cluster", "shape", "assignment", "id_offset")
_COUNTED = (MachineState.IDLE, MachineState.SPECULATIVE, MachineState.CONFIGURED)
_SERVING = np.zeros(len(MachineState), dtype=np.bool_)
_SERVING[[*BOUND_STATES, MachineState.CREATING]] = True


@dataclass(frozen=True, slots=True)
class ClusterMembers:
    """Machines that serve a cluster or are on order for it, in the order in which they are credited.

    First the Configured ones in keep order, then the Configuring ones in keep order, then the Creating ones by id.
    """

    rows: Rows
    kinds: Numbers
    sizes: Numbers
    stamps: Numbers
    configured: int
    bound: int
    on_order: dict[str, list[int]]
    """Places of Creating machines by the fingerprint they were ordered for."""


@dataclass(frozen=True, slots=True)
class FleetChanges:
    """What became different between two snapshots."""

    clusters: frozenset[str]
    supply: bool  # whether an Idle or Speculative machine came, went or changed
    kinds_in_supply: bool  # whether a kind appeared among them or vanished


class Fleet:
    """Columns by row of the inventory, members by cluster, counts by kind."""

    def __init__(self, snapshot: InventorySnapshot, kinds: Kinds, named_wide: tuple[str, ...]) -> None:
        self.kinds, self.named_wide = kinds, named_wide
        self.stamps = Stamps(snapshot.assignments)
        self._look_at(snapshot)
        self.rank = _ranks(snapshot)
        self.kind: NDArray[np.int32] = kinds.of_shape[snapshot.columns["shape"]].astype(np.int32)
        if named_wide:
            wide = {key: wide_values(snapshot, key) for key in named_wide}
            self.kind = kinds.split(self.kind, wide, snapshot.id_order)
        self.counts = {
            state: np.bincount(self.kind[self.state == state], minlength=len(kinds)) for state in _COUNTED
        }
        self.members: dict[str, ClusterMembers] = self._all_members()
        self._pools: dict[MachineState, StatePool] = {}
        self._kinds_in_supply_changed = False

    def _look_at(self, snapshot: InventorySnapshot) -> None:
        self.snapshot = snapshot
        self.id_order = snapshot.id_order
        columns = snapshot.columns
        self.state: NDArray[np.uint8] = columns["state"]
        self.cluster: NDArray[np.int32] = columns["cluster"]
        self.assignment: NDArray[np.int32] = columns["assignment"]

    # Bringing it up to date

    def follows(self, snapshot: InventorySnapshot) -> bool:
        """Whether a snapshot is a later one of the same inventory, its numbers meaning the same."""
        last = self.snapshot
        return (
            snapshot.shapes is last.shapes
            and snapshot.assignments is last.assignments
            and snapshot.clusters is last.clusters
            and snapshot.columns["state"].size >= last.columns["state"].size
            and all(_same_texts(snapshot, last, key) for key in self.named_wide)
            and not (self.named_wide and snapshot.columns["shape"] is not last.columns["shape"])
        )

    def advance(self, snapshot: InventorySnapshot, kinds: Kinds) -> FleetChanges:
        """Look at a later snapshot, and kinds that may have grown; say which clusters have other machines now."""
        if kinds is not self.kinds:
            self.kinds = kinds
            self._pools = {state: pool.grown(len(kinds)) for state, pool in self._pools.items()}
            more = len(kinds) - self.counts[MachineState.IDLE].size
            self.counts = {state: np.pad(counts, (0, more)) for state, counts in self.counts.items()}
        changed = _changed_rows(self.snapshot, snapshot)
        repopulated = snapshot.columns["id_offset"] is not self.snapshot.columns["id_offset"]
        if not changed.size and not repopulated:
            self._look_at(snapshot)
            return FleetChanges(frozenset(), supply=False, kinds_in_supply=False)
        self.stamps.grow()
        known = changed[changed < self.kind.size]
        left = self._homes(known)
        gone = self._counted(known)
        were = self.kind[known]
        self._look_at(snapshot)
        if repopulated:
            self.rank = _ranks(snapshot)
        self._recount(changed, gone)
        joined = self._homes(changed)
        supply = bool((gone[MachineState.IDLE] | gone[MachineState.SPECULATIVE]).any())
        state = self.state[changed]
        supply |= bool(((state == MachineState.IDLE) | (state == MachineState.SPECULATIVE)).any())
        clusters = {name for name in (*left, *joined) if name}
        self._regroup(clusters, changed, joined)
        if repopulated:
            self._pools = {}  # ranks mean something else now
        elif supply:
            self._move_in_pools(known, gone, were, changed)
        return FleetChanges(frozenset(clusters), supply or repopulated, self._kinds_in_supply_changed)

    def _counted(self, rows: Numbers) -> dict[MachineState, NDArray[np.bool_]]:
        return {state: self.state[rows] == state for state in _COUNTED}

    def _recount(self, changed: Numbers, gone: dict[MachineState, NDArray[np.bool_]]) -> None:
        """Kinds and counts of changed rows; new arrays, as a decision may still read the old ones."""
        known = changed[changed < self.kind.size]
        old_kinds = self.kind[known]
        before = self.acquirable_counts() > 0
        if not self.named_wide:  # else shapes have not changed, and neither have kinds
            shapes = self.snapshot.columns["shape"]
            kind = np.zeros(shapes.size, dtype=np.int32)
            kind[: self.kind.size] = self.kind
            kind[changed] = self.kinds.of_shape[shapes[changed]]
            self.kind = kind
        now = self._counted(changed)
        for state in _COUNTED:
            counts = self.counts[state].copy()
            np.subtract.at(counts, old_kinds[gone[state]], 1)
            np.add.at(counts, self.kind[changed[now[state]]], 1)
            self.counts[state] = counts
        after = self.acquirable_counts() > 0
        self._kinds_in_supply_changed = bool((before != after).any())

    def _move_in_pools(
        self, known: Numbers, gone: dict[MachineState, NDArray[np.bool_]], were: Rows, changed: Numbers
    ) -> None:
        """Pools with what came and without what went; new ones, as a decision may still read the old ones."""
        for state, pool in self._pools.items():
            left, joined = gone[state], changed[self.state[changed] == state]
            if left.any() or joined.size:
                self._pools[state] = pool.changed(
                    MovedMachines(self.rank[known[left]], were[left]),
                    MovedMachines(self.rank[joined], self.kind[joined]),
                )

    def acquirable_counts(self) -> NDArray[np.int64]:
        """Machines by kind that are Idle or Speculative."""
        counts: NDArray[np.int64] = self.counts[MachineState.IDLE] + self.counts[MachineState.SPECULATIVE]
        return counts

    def _homes(self, rows: Numbers) -> list[str]:
        """For each row the cluster that it serves or is on order for, empty if none."""
        clusters, stamps, names = (
            self.cluster[rows].tolist(),
            self.assignment[rows].tolist(),
            self.snapshot.clusters,
        )
        homes = []
        for state, cluster, stamp in zip(self.state[rows].tolist(), clusters, stamps, strict=True):
            if state == MachineState.CREATING:
                homes.append(self.stamps[stamp].cluster)
            else:
                homes.append(names[cluster] if _SERVING[state] else "")
        return homes

    def _regroup(self, clusters: Iterable[str], changed: Numbers, homes: list[str]) -> None:
        joined: dict[str, list[int]] = {}
        for row, home in zip(changed.tolist(), homes, strict=True):
            joined.setdefault(home, []).append(row)
        touched = np.zeros(self.state.size, dtype=np.bool_)
        touched[changed] = True
        for name in clusters:
            old = self.members.get(name)
            stayed = old.rows[~touched[old.rows]] if old is not None else _NO_ROWS
            rows = np.concatenate([stayed, np.array(joined.get(name, ()), dtype=np.int32)])
            if rows.size:
                self.members[name] = self._members_of(rows)
            else:
                self.members.pop(name, None)

    def _members_of(self, rows: Rows) -> ClusterMembers:
        """The members of one cluster, put in order."""
        states = self.state[rows]
        creating = states == MachineState.CREATING
        kinds = self.kind[rows]
        penalty = np.where(creating, 0, self.stamps.keep_rank[self.assignment[rows]])
        price = np.where(creating, 0, self.kinds.price_rank[kinds])
        later = creating * 2 + (states == MachineState.CONFIGURING)
        rows = rows[np.lexsort((self.rank[rows], penalty, price, later))]
        bound = int(rows.size - creating.sum())
        return self._arranged(rows, int((states == MachineState.CONFIGURED).sum()), bound)

    def _arranged(self, rows: Rows, configured: int, bound: int) -> ClusterMembers:
        kinds = self.kind[rows].astype(np.intp)
        on_order: dict[str, list[int]] = {}
        for place in range(bound, rows.size):
            stamp = self.stamps[int(self.assignment[rows[place]])]
            on_order.setdefault(stamp.fingerprint, []).append(place)
        stamps = self.assignment[rows].astype(np.intp)
        return ClusterMembers(rows, kinds, self.kinds.size[kinds], stamps, configured, bound, on_order)

    def _all_members(self) -> dict[str, ClusterMembers]:
        """The members of all clusters at once: whole columns are sorted, then cut."""
        states = self.state[self.id_order]
        bound = self.id_order[(states == MachineState.CONFIGURED) | (states == MachineState.CONFIGURING)]
        creating: dict[str, list[int]] = {}
        for row in self.id_order[states == MachineState.CREATING].tolist():
            # a machine on order for no cluster is credited to none (`engine#crediting`, `engine#stamps`)
            name = self.stamps[int(self.assignment[row])].cluster
            if name:
                creating.setdefault(name, []).append(row)
        code = (self.state[bound] == MachineState.CONFIGURING) * np.int64(self.kinds.price_ranks)
        code = (code + self.kinds.price_rank[self.kind[bound]]) * self.stamps.keep_ranks
        code += self.stamps.keep_rank[self.assignment[bound]]
        order = stable_order(code, 2 * self.kinds.price_ranks * self.stamps.keep_ranks)
        clusters = self.cluster[bound][order]
        by_cluster = stable_order(clusters, len(self.snapshot.clusters))
        rows, clusters = bound[order[by_cluster]], clusters[by_cluster]
        kinds = self.kind[rows].astype(np.intp)
        sizes, stamps = self.kinds.size[kinds], self.assignment[rows].astype(np.intp)
        configured = np.add.accumulate(self.state[rows] == MachineState.CONFIGURED, dtype=np.intp)
        starts = np.flatnonzero(np.diff(clusters, prepend=-1)).tolist()
        members: dict[str, ClusterMembers] = {}
        for start, end in zip(starts, [*starts[1:], rows.size], strict=bool(starts)):
            name = self.snapshot.clusters[int(clusters[start])]
            if name in creating:
                continue
            here = slice(start, end)
            members[name] = ClusterMembers(
                rows[here],
                kinds[here],
                sizes[here],
                stamps[here],
                int(configured[end - 1] - (configured[start - 1] if start else 0)),
                end - start,
                {},
            )
        for name, more in creating.items():
            number = self.snapshot.clusters.number(name)
            here_rows = rows[clusters == number] if number is not None else _NO_ROWS
            members[name] = self._members_of(np.concatenate([here_rows, np.array(more, dtype=np.int32)]))
        return members

    # Reading

    def pool(self, state: MachineState) -> StatePool:
        """The machines in a state, by kind and id."""
        found = self._pools.get(state)
        if found is None:
            ranks = np.flatnonzero(self.state[self.id_order] == state).astype(np.int32)
            found = self._pools[state] = StatePool.of(self.id_order, ranks, self.kind, len(self.kinds))
        return found

    def reclamation_penalty(self, rows: NDArray[np.integer]) -> NDArray[np.float64]:
        """What taking each machine from its workload would cost, by its stamp."""
        penalty: NDArray[np.float64] = self.stamps.reclamation[self.assignment[rows]]
        return penalty

    def in_state(self, state: MachineState) -> Numbers:
        """Rows in a state, by id."""
        rows = np.flatnonzero(self.state == state)
        return rows[np.argsort(self.rank[rows])]

    def by_id(self, rows: NDArray[np.integer]) -> Numbers:
        """Rows in the order of their ids."""
        ordered: Numbers = self.id_order[np.sort(self.rank[rows])].astype(np.intp, copy=False)
        return ordered


_NO_ROWS: Rows = np.empty(0, dtype=np.int32)


def _ranks(snapshot: InventorySnapshot) -> Rows:
    """For each row its place in the order of ids."""
    rank = np.zeros(snapshot.columns["state"].size, dtype=np.int32)
    rank[snapshot.id_order] = np.arange(snapshot.id_order.size, dtype=np.int32)
    return rank


def _changed_rows(last: InventorySnapshot, now: InventorySnapshot) -> Numbers:
    differs = np.zeros(now.columns["state"].size, dtype=np.bool_)
    for name in _COMPARED:
        old, new = last.columns[name], now.columns[name]
        if old is not new:
            differs[: old.size] |= old != new[: old.size]
    known = last.columns["state"].size
    differs[known:] = now.columns["state"][known:] != MachineState.UNSPECIFIED
    return differs.nonzero()[0]


def _same_texts(one: InventorySnapshot, other: InventorySnapshot, key: str) -> bool:
    if key == HOST_NAME_KEY and one.columns["id_offset"] is not other.columns["id_offset"]:
        return False  # ids are host names
    mine, theirs = one.wide.get(key), other.wide.get(key)
    if mine is None or theirs is None:
        return mine is theirs
    return mine.offsets is theirs.offsets and mine.lengths is theirs.lengths
