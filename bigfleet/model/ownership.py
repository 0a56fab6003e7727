"""What a shard that shares its provider owns: domains of one label key, plus machines adopted, less machines released.

Why: several shards list the same machines, and no machine may have two owners. Whether a machine is a shard's own follows
from this record alone, never from what the shard saw in a listing before.
Must never: be changed once it is in use; a change is made on a copy, which replaces it after it is on disk.
Rules: `coordinator#partition-mode`, `coordinator#ownership-file`, `coordinator#leaving-domain`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from bigfleet.model.instruction import Domain
from bigfleet.model.shard_report import MoveMark, OwnershipView


class Claim(Enum):
    """Whether a listed machine is the shard's own."""

    OWN = "own"
    IF_MARKED = "if-marked"
    """Only if the shard itself bound it, as the mark in its metadata shows."""
    FOREIGN = "foreign"


@dataclass(slots=True)
class Ownership:
    """What one shard owns by one partition key."""

    key: str
    domains: set[str] = field(default_factory=set)
    """Values of the key."""
    leaving: set[str] = field(default_factory=set)
    """Values that the shard lets go; it keeps bound machines there until none is left."""
    adopted: dict[str, int] = field(default_factory=dict)
    """Machines of other domains, with the number of the move."""
    released: dict[str, int] = field(default_factory=dict)
    """Machines of own domains that another shard holds, with the number of the move."""
    settled: bool = False
    """Whether this is all the shard owns: read from its file, or synchronised with the coordinator since."""

    def copy(self) -> "Ownership":
        """Return a copy that may be changed."""
        return Ownership(
            self.key,
            set(self.domains),
            set(self.leaving),
            dict(self.adopted),
            dict(self.released),
            self.settled,
        )

    @property
    def empty(self) -> bool:
        """Whether the shard owns nothing and remembers nothing."""
        return not (self.domains or self.leaving or self.adopted or self.released)

    def claim(self, machine_id: str, value: str | None, *, bound: bool) -> Claim:
        """Return whether a machine is the shard's own; `value` is its value of the key, None for a machine without."""
        if machine_id in self.released:
            return Claim.FOREIGN
        if machine_id in self.adopted:
            return Claim.OWN
        if value is not None and self.settled and value in self.domains:
            return Claim.OWN
        # Without a trusted record only what this shard bound itself is certain, and that it must not let go.
        if bound and value is not None and (not self.settled or value in self.leaving):
            return Claim.IF_MARKED
        return Claim.FOREIGN

    def view(self) -> OwnershipView:
        """Return this as the coordinator reads it, in a fixed order."""
        held = sorted(self.domains | self.leaving)
        return OwnershipView(
            domains=tuple(Domain(self.key, value) for value in held),
            adopted=_marks(self.adopted.items()),
            released=_marks(self.released.items()),
            settled=self.settled,
            leaving=tuple(Domain(self.key, value) for value in sorted(self.leaving)),
        )


def _marks(items: Iterable[tuple[str, int]]) -> tuple[MoveMark, ...]:
    return tuple(MoveMark(machine_id, seq) for machine_id, seq in sorted(items))
