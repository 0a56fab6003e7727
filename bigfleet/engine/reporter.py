"""The reporter: what the engine tells a listener while it decides.

Why: people ask why; traces, explanations and the simulator all want the engine's own account and not a second guess. One
listener hears one call per need and step, with counts, never one per machine that was looked at.
What a call hands over is computed for it; without a reporter nothing is.
Must never: change an answer. A hook returns nothing, and the engine never reads a reporter.
Rules: dashboard section 6.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bigfleet.model.need import Need
from bigfleet.model.resources import Resources


@dataclass(frozen=True, slots=True)
class DomainReport:
    """What one domain held for a gang when it was its turn to choose."""

    value: str
    count: int
    total: Resources
    creditable: Resources
    own: Resources


@dataclass(frozen=True, slots=True)
class PickReport:
    """One look at a supply on behalf of one need."""

    considered: int  # machines that could serve it and that nobody held at its turn
    taken: tuple[str, ...]  # ids in the order in which they were taken


@dataclass(frozen=True, slots=True)
class VictimReport:
    """How Phase 2 looked for victims on behalf of one need."""

    in_flight: tuple[str, ...]  # machines that drain for it already, counted before anybody is asked to leave
    candidates: int  # Configured, of lower priority, able to serve it, not taken for a need before it
    protected: int  # of those, claimed this cycle by a need that does not rank below it
    taken: tuple[str, ...]  # in the order in which they are given up


class Reporter:
    """Hears everything, does nothing; who listens overrides what it wants to hear.

    Needs are named by their place in the demand after folding, machines by id.
    """

    def demand(self, needs: Sequence[Need], sources: Sequence[Sequence[int]]) -> None:
        """The demand after folding, and for each of its needs the rows that it stands for."""

    def credited(self, need: int, pick: PickReport) -> None:
        """Existing machines and those on order that count for a need; one call per need."""

    def domains(self, need: int, notes: Sequence[DomainReport], chosen: str | None) -> None:
        """What each domain held for a gang, and in which one it gathers; one call per gang."""

    def acquired(self, need: int, idle: PickReport, speculative: PickReport) -> None:
        """What a need took of free machines; one call per need that existing ones did not cover."""

    def victims(self, need: int, note: VictimReport) -> None:
        """Who is to leave for a need that is still short; none for parked gangs and gangs without a domain."""

    def reclaimed(self, machines: Sequence[str], kept_unreported: int) -> None:
        """Configured machines that no need holds; those of clusters that have not reported are kept."""

    def released(self, machines: Sequence[str]) -> None:
        """Idle machines that are given back."""
