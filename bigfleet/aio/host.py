"""The host seam: what a piece of computing costs.

Why: in virtual time computing is free, and a fleet in which cycles take no time has no late ticks and no missed deadlines.
So code that computes for long says what it did, and the host of a run on virtual time turns that into time.
Must never: be used to wait for something, nor to measure; the system form does nothing at all.
Rules: `testing#constructor-seams`, `testing#virtual-clock`.
"""

from typing import Protocol


class Host(Protocol):
    """The machine under the process, as far as its speed matters."""

    async def charge(self, work: str, units: int = 1) -> None:
        """Account for work just done, such as ("cycle", machines looked at)."""


class SystemHost:
    """A real host has already taken the time that the work needed."""

    async def charge(self, work: str, units: int = 1) -> None:
        """Do nothing, not even give way to another task."""
