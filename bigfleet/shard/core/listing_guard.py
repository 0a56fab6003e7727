"""Decides whether machines missing from a full listing are removed.

Why: a provider with a half-filled cache answers a short but successful listing. Removing the machines
reopens their demand, and they are bought again while they still run.
Must never: delay anything but removals: the records of the listing are applied at once.
Rules: `shard#listing-guard`; ADR-0073. The numbers are constants, not configuration.
"""

CONFIRMED_AT = 3
_AT_LEAST = 10
_ONE_IN = 5  # more than 20 %


class ListingGuard:
    """Counts consecutive listings that lack too many machines."""

    def __init__(self) -> None:
        self.held = 0
        """How many in a row were held."""

    def believes(self, known: int, missing: int) -> bool:
        """Whether to remove the machines that a full listing lacks; `known` is the count before the listing."""
        if missing < _AT_LEAST or missing * _ONE_IN <= known:
            self.held = 0
            return True
        self.held += 1
        if self.held < CONFIRMED_AT:
            return False
        self.held = 0
        return True
