"""The domains that the coordinator assigned to this shard.

Why: they are taken down and acknowledged; none at all means "everything". What the shard owns follows from its provider's
listing as long as it shares that with nobody, so nothing decides by this set yet (decision C4).
Rules: shard 2 and 17, coordinator 8.1.
"""

from bigfleet.model.instruction import Domain


class AssignedDomains:
    """A set of domains; both changes may be repeated."""

    def __init__(self) -> None:
        self._domains: set[Domain] = set()

    def assign(self, domain: Domain) -> None:
        """Take a domain; one that is held already stays."""
        self._domains.add(domain)

    def unassign(self, domain: Domain) -> None:
        """Let a domain go; one that is not held is no error."""
        self._domains.discard(domain)

    def clear(self) -> None:
        """Let all go: a new leader says again which they are."""
        self._domains.clear()

    def listed(self) -> tuple[Domain, ...]:
        """All of them, by key and value."""
        return tuple(sorted(self._domains))
