"""Ranks the domains of a gang, from what a reporter got while the engine decided.

Why: what every domain held for a gang is not part of a decision.
Must never: keep a machine or a need alive; ids, amounts and counts only.
Rules: `dashboard#explain`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from bigfleet.engine.reporter import DomainReport, Reporter
from bigfleet.model.decision import Verdict
from bigfleet.model.resources import Resources


@dataclass(frozen=True, slots=True)
class RankedDomain:
    """A domain in the order in which a gang prefers them, and by what it beats or loses to the next."""

    value: str
    chosen: bool
    satisfiable: bool
    coverage_per_mille: int
    count: int | None = None
    """Machines; unknown without a reporter, like everything below."""
    creditable_per_mille: int | None = None
    own_per_mille: int | None = None
    overcommitment_per_mille: int | None = None
    decided_by: str = ""
    """What puts it behind the domain before it."""


@dataclass(slots=True)
class DomainNotes:
    """By place of the need."""

    domains: dict[int, tuple[DomainReport, ...]] = field(default_factory=dict)


class DomainRecorder(Reporter):
    """Keeps what each domain held for each gang."""

    def __init__(self) -> None:
        self.notes = DomainNotes()

    def domains(self, need: int, notes: Sequence[DomainReport], chosen: str | None) -> None:
        """Keep what each domain held."""
        del chosen  # the verdict has it
        self.notes.domains[need] = tuple(notes)


def ranked(verdict: Verdict, notes: Sequence[DomainReport] | None) -> tuple[RankedDomain, ...]:
    """The domains of a gang, the chosen one first; without reports only those that the verdict names."""
    if notes is None:
        return tuple(
            RankedDomain(
                item.domain, item.domain == verdict.domain, item.satisfiable, item.coverage_per_mille
            )
            for item in verdict.same_candidates
        )
    wanted = verdict.need.total
    order = sorted((note for note in notes if note.count), key=lambda note: _rank(note, wanted))
    made: list[RankedDomain] = []
    for place, note in enumerate(order):
        decided_by = "" if place == 0 else _difference(order[place - 1], note, wanted)
        made.append(
            RankedDomain(
                value=note.value,
                chosen=note.value == verdict.domain,
                satisfiable=note.total.covers(wanted),
                coverage_per_mille=_per_mille(_worst(note.total, wanted)),
                count=note.count,
                creditable_per_mille=_mean_per_mille(_coverage(note.creditable, wanted), wanted),
                own_per_mille=_mean_per_mille(_coverage(note.own, wanted), wanted),
                overcommitment_per_mille=_mean_per_mille(_overcommitment(note.total, wanted), wanted),
                decided_by=decided_by,
            )
        )
    return tuple(made)


Rank = tuple[bool, Fraction, Fraction, Fraction, int, str]
_BOTH_FIT = ("fits", "held already", "held for this very gang", "tightest fit", "machines", "name")
_NEITHER_FITS = ("fits", "coverage", "held already", "", "machines", "name")


def _rank(note: DomainReport, wanted: Resources) -> Rank:
    """The order of `engine#domain-order`, exactly."""
    creditable = -_coverage(note.creditable, wanted)
    if note.total.covers(wanted):
        own, spare = -_coverage(note.own, wanted), _overcommitment(note.total, wanted)
        return (False, creditable, own, spare, -note.count, note.value)
    return (True, -_coverage(note.total, wanted), creditable, Fraction(0), -note.count, note.value)


def _difference(before: DomainReport, after: DomainReport, wanted: Resources) -> str:
    first, second = _rank(before, wanted), _rank(after, wanted)
    names = _NEITHER_FITS if first[0] else _BOTH_FIT
    return next(name for name, one, two in zip(names, first, second, strict=True) if one != two)


def _coverage(have: Resources, wanted: Resources) -> Fraction:
    shares = (min(Fraction(1), Fraction(have.amount(name), amount)) for name, amount in wanted.items())
    return sum(shares, Fraction(0))


def _overcommitment(have: Resources, wanted: Resources) -> Fraction:
    return sum((Fraction(have.amount(name), amount) for name, amount in wanted.items()), Fraction(0))


def _worst(have: Resources, wanted: Resources) -> Fraction:
    shares = (min(Fraction(1), Fraction(have.amount(name), amount)) for name, amount in wanted.items())
    return min(shares, default=Fraction(1))


def _mean_per_mille(total: Fraction, wanted: Mapping[str, int]) -> int:
    return _per_mille(total / len(wanted)) if wanted else 1000


def _per_mille(share: Fraction) -> int:
    return int(share * 1000)
