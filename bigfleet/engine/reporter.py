"""The reporter: hooks that the engine calls while it decides.

Why: traces and explanations need the engine's own account of a decision, not a second computation of it. A
reporter gets one call per need and step, with counts, never one per machine.
The arguments are computed for the call; without a reporter nothing is computed.
Must never: change an answer. A hook returns nothing, and the engine never reads a reporter.
Rules: `dashboard#explain`.
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
    """What one need considered and took of one supply."""

    considered: int  # machines that could serve it and that no need held at its turn
    taken: tuple[str, ...]  # ids in the order in which they were taken


@dataclass(frozen=True, slots=True)
class VictimReport:
    """How Phase 2 looked for victims on behalf of one need."""

    in_flight: tuple[str, ...]  # machines that already drain for it, counted before any other is preempted
    candidates: int  # Configured, of lower priority, able to serve it, not taken for a need before it
    protected: int  # of those, claimed this cycle by a need that does not rank below it
    taken: tuple[str, ...]  # in the order in which they are given up


class Reporter:
    """Every hook, each doing nothing; a subclass overrides those it needs.

    Needs are named by their place in the demand after folding, machines by id.
    """

    def demand(self, needs: Sequence[Need], sources: Sequence[Sequence[int]]) -> None:
        """The demand after folding, and for each of its needs the rows it represents."""

    def credited(self, need: int, pick: PickReport) -> None:
        """Existing machines and those on order that count for a need; one call per need."""

    def domains(self, need: int, notes: Sequence[DomainReport], chosen: str | None) -> None:
        """What each domain held for a gang, and the chosen one; one call per gang."""

    def acquired(self, need: int, idle: PickReport, speculative: PickReport) -> None:
        """What a need took of free machines; one call per need that existing ones did not cover."""

    def victims(self, need: int, note: VictimReport) -> None:
        """The machines that leave for a need that is still short; none for parked gangs and gangs without a domain."""

    def reclaimed(self, machines: Sequence[str], kept_unreported: int) -> None:
        """Configured machines that no need holds; those of clusters that have not reported are kept."""

    def released(self, machines: Sequence[str]) -> None:
        """Idle machines that are given back."""
