"""All clusters' needs; a roll-up replaces its cluster's part as a whole.

Why: demand is always stated in full, so nothing of an older statement may survive (full replacement).
Called by: the shard's roll-up lane (`replace`), its cycle (`snapshot`).
Must never: merge, drop or reorder rows within a cluster, or change a snapshot it has handed out.
Rules: decision-engine 2.11.
"""

from collections.abc import Iterable
from operator import itemgetter

from bigfleet.model.need import Need


class NeedsTable:
    """Demand by cluster, presented in one order."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[Need, ...]] = {}
        self._sorted: tuple[Need, ...] | None = ()
        self.version = 0
        """Rises with every change, arrival times included, so that a reader can tell that nothing changed."""

    def replace(self, cluster: str, needs: Iterable[Need]) -> bool:
        """Swap a cluster's whole contribution, an empty one removing it; tell whether the demand changed.

        A roll-up that differs only in its time is the same demand: it takes its new place in the order, no more.
        """
        rows = tuple(needs)
        foreign = next((need.cluster for need in rows if need.cluster != cluster), None)
        if foreign is not None:
            raise ValueError(f"a row of cluster {foreign!r} cannot stand among those of {cluster!r}")
        before = self._rows.pop(cluster, ())
        if rows:
            self._rows[cluster] = rows
        if rows != before:
            self._sorted = None
            self.version += 1
        return len(rows) != len(before) or any(map(_differ, rows, before))

    def snapshot(self) -> tuple[Need, ...]:
        """All rows by priority descending, arrival ascending, cluster ascending, then as sent."""
        if self._sorted is None:
            keyed = [
                (-need.profile.priority, need.arrival_ns, cluster, place, need)
                for cluster, rows in self._rows.items()
                for place, need in enumerate(rows)
            ]
            keyed.sort(key=itemgetter(0, 1, 2, 3))
            self._sorted = tuple(row[4] for row in keyed)
        return self._sorted

    def of_cluster(self, cluster: str) -> tuple[Need, ...]:
        """A cluster's rows as it sent them."""
        return self._rows.get(cluster, ())

    @property
    def clusters(self) -> tuple[str, ...]:
        """Every cluster with demand, in text order."""
        return tuple(sorted(self._rows))

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))


def _differ(one: Need, other: Need) -> bool:
    return (one.total, one.unit, one.group, one.profile) != (
        other.total,
        other.unit,
        other.group,
        other.profile,
    )
