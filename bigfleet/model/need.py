"""The need: one row of one cluster's demand, and how rows of one kind add up.

Why: it is the atom of the wire; everything the engine does answers one of these.
Must never: count pods or machines; how many machines it takes is for the engine to find (ADR-0027).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from bigfleet.model.buckets import upper_bound
from bigfleet.model.machine import PODS, Assignment, Shape
from bigfleet.model.profile import Profile
from bigfleet.model.resources import ZERO, Resources

NeedKey = tuple[str, str, str, int, bool]


@dataclass(frozen=True, slots=True)
class Need:
    """A cluster wants a resource total under constraints."""

    cluster: str
    profile: Profile
    total: Resources = ZERO
    unit: Resources = ZERO  # every machine counted for the need must hold this alone; zero = no floor
    arrival_ns: int = 0  # 0 = unknown
    group: str = ""  # identity of a gang; only ever compared for equality
    max_units: int = 0  # how many units one machine counts for at most; 0 = no limit
    for_fragments: bool = False  # on top of the sum, for pods that fit on no machine's free part

    def counted(self, shape: Shape) -> Resources:
        """What a machine of a shape counts as towards this need.

        Rules: `engine#capacity`, `engine#pods`, `engine#max-units-per-machine`.
        """
        capacity = shape.with_pods if self.names_pods else shape.capacity
        return capacity.at_most(self.unit.scaled(self.max_units)) if self.max_units else capacity

    @property
    def names_pods(self) -> bool:
        """Whether it asks for room for pods, so that a machine counts with their default number (`engine#pods`)."""
        return PODS in self.total or PODS in self.unit

    @property
    def stamp_key(self) -> tuple[str, str, str]:
        """What stamps on machines and references name; rows that differ in a limit or are for fragments share it."""
        return (self.cluster, self.profile.fingerprint, self.group)

    @property
    def key(self) -> NeedKey:
        """What makes two rows one row."""
        return (*self.stamp_key, self.max_units, self.for_fragments)


def assignment_of(need: Need) -> Assignment:
    """The stamp of a machine that serves a need."""
    profile = need.profile
    return Assignment(
        priority=profile.priority,
        interruption_penalty=upper_bound(profile.interruption_bucket),
        reclamation_penalty=upper_bound(profile.reclamation_bucket),
        fingerprint=profile.fingerprint,
        group=need.group,
    )


def aggregate(needs: Iterable[Need]) -> list[Need]:
    """Add up rows of equal key, in the order in which they were first seen."""
    rows: dict[NeedKey, Need] = {}
    for need in needs:
        seen = rows.get(need.key)
        rows[need.key] = need if seen is None else _combined(seen, need)
    return list(rows.values())


def _combined(first: Need, second: Need) -> Need:
    arrivals = [arrival for arrival in (first.arrival_ns, second.arrival_ns) if arrival]
    return replace(
        first,
        total=first.total + second.total,
        unit=first.unit.maximum(second.unit),
        arrival_ns=min(arrivals, default=0),
    )
