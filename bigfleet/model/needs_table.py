"""All clusters' needs; a roll-up replaces its cluster's part as a whole.

Why: demand is always stated in full, so nothing of an older statement may survive (full replacement).
Must never: merge, drop or reorder rows within a cluster, or change demand it has handed out.
Rules: `engine#needs-table`.
"""

from collections.abc import Iterable

from bigfleet.model.demand import ClusterNeeds, Demand, ListKey
from bigfleet.model.need import Need


class NeedsTable:
    """Demand by cluster, presented in one order."""

    def __init__(self) -> None:
        self._parts: dict[str, ClusterNeeds] = {}
        self._demand: Demand | None = None
        self.version = 0
        """Increases with every change, so that a reader can detect that nothing changed."""

    def replace(self, cluster: str, needs: Iterable[Need]) -> bool:
        """Replace a cluster's whole contribution, an empty one removing it; return whether the demand changed.

        A roll-up that differs only in its time is the same demand and changes nothing: it keeps the place in the order
        that it has had since it was first stated (ADR-0110).
        """
        part = self.changed_part(cluster, needs)
        if part is not None:
            self.put(part)
        return part is not None

    def changed_part(self, cluster: str, needs: Iterable[Need]) -> ClusterNeeds | None:
        """What `put` would replace a cluster's contribution with, None if that is the same demand.

        It changes nothing, so that a thread may do this part of the work, which takes long for tens of thousands of rows.
        """
        rows = tuple(needs)
        foreign = next((need.cluster for need in rows if need.cluster != cluster), None)
        if foreign is not None:
            raise ValueError(f"a row of cluster {foreign!r} cannot stand among those of {cluster!r}")
        before = self.of_cluster(cluster)
        if len(rows) == len(before) and not any(map(_differ, rows, before)):
            return None
        return ClusterNeeds(cluster, rows, _list_keys(cluster, rows))

    def put(self, part: ClusterNeeds) -> None:
        """Replace a cluster's whole contribution, an empty one removing it."""
        self._parts.pop(part.cluster, None)
        if part.rows:
            self._parts[part.cluster] = part
        self._demand = None
        self.version += 1

    def demand(self) -> Demand:
        """The current demand; the same object until something changes."""
        if self._demand is None:
            self._demand = Demand(dict(self._parts))
        return self._demand

    def snapshot(self) -> tuple[Need, ...]:
        """All rows by priority descending, arrival ascending, cluster ascending, then as sent."""
        return self.demand().rows

    def of_cluster(self, cluster: str) -> tuple[Need, ...]:
        """A cluster's rows as it sent them."""
        part = self._parts.get(cluster)
        return () if part is None else part.rows

    @property
    def clusters(self) -> tuple[str, ...]:
        """Every cluster with demand, in text order."""
        return tuple(sorted(self._parts))

    def __len__(self) -> int:
        return sum(len(part.rows) for part in self._parts.values())


def _list_keys(cluster: str, rows: Iterable[Need]) -> list[ListKey]:
    return [(-need.profile.priority, need.arrival_ns, cluster, place) for place, need in enumerate(rows)]


def _differ(one: Need, other: Need) -> bool:
    if one.profile is not other.profile and one.profile != other.profile:
        return True
    mine = (one.total, one.unit, one.group, one.max_units, one.for_fragments)
    return mine != (other.total, other.unit, other.group, other.max_units, other.for_fragments)
