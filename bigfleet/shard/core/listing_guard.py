"""Decides whether machines missing from a full listing are removed.

Why: a provider with a half-filled cache answers a short but successful listing. Removing the machines
reopens their demand, and they are bought again while they still run.
Must never: delay anything but removals: the records of the listing are applied at once.
Rules: `shard#listing-guard`; ADR-0073, ADR-0212. The share is a constant, the window a flag.
"""

CONFIRMED_AT = 3
_AT_LEAST = 10
_ONE_IN = 5  # more than 20 %


class ListingGuard:
    """Counts consecutive listings that lack too many machines, and for how long they come."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self.held = 0
        """How many in a row were held."""
        self.missing = 0
        """How many machines the last held listing lacked."""
        self.since_s: float | None = None
        """When the first of them came, on the clock of the caller; None when the last listing was believed."""

    def believes(self, known: int, missing: int, now_s: float) -> bool:
        """Whether to remove the machines that a full listing lacks; `known` is the count before the listing."""
        if missing < _AT_LEAST or missing * _ONE_IN <= known:
            self._believe()
            return True
        self.held, self.missing = self.held + 1, missing
        if self.since_s is None:
            self.since_s = now_s
        if self.held < CONFIRMED_AT or now_s - self.since_s < self._window_s:
            return False
        self._believe()
        return True

    def _believe(self) -> None:
        self.held, self.missing, self.since_s = 0, 0, None
