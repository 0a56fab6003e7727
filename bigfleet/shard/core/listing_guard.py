"""Whether machines that a full listing lacks are believed gone.

Why: a provider with a half-filled cache answers a short but successful listing. Forgetting the machines reopens their
demand, and they are bought again while they still run.
Must never: hold back anything but removals: what the listing does say is applied at once.
Rules: decision S7; ADR-0073. The numbers are constants, not configuration.
"""

CONFIRMED_AT = 3
_AT_LEAST = 10
_ONE_IN = 5  # more than 20 %


class ListingGuard:
    """Counts listings in a row that lack too much."""

    def __init__(self) -> None:
        self.held = 0
        """How many in a row are being held."""

    def believes(self, known: int, missing: int) -> bool:
        """Whether machines missing from a full listing, of those known before it, are to be removed."""
        if missing < _AT_LEAST or missing * _ONE_IN <= known:
            self.held = 0
            return True
        self.held += 1
        if self.held < CONFIRMED_AT:
            return False
        self.held = 0
        return True
