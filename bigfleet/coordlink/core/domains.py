"""The domains that the coordinator assigned to this shard.

Why: a shard that shares its provider will own these; an empty set means "everything". Nothing decides by this set yet, since
no shard shares its provider (`coordinator#one-shard-per-provider`, `coordinator#no-accepted-no-ops`).
Rules: `shard#memory`, `shard#coordinator-client`, `coordinator#what-a-domain-is`.
"""

from bigfleet.model.instruction import Domain


class AssignedDomains:
    """A set of domains; assigning and unassigning may be repeated."""

    def __init__(self) -> None:
        self._domains: set[Domain] = set()

    def assign(self, domain: Domain) -> None:
        """Add a domain."""
        self._domains.add(domain)

    def unassign(self, domain: Domain) -> None:
        """Remove a domain, if it is there."""
        self._domains.discard(domain)

    def clear(self) -> None:
        """Remove all domains: a new leader sends them again."""
        self._domains.clear()

    def listed(self) -> tuple[Domain, ...]:
        """Return all domains by key and value."""
        return tuple(sorted(self._domains))
