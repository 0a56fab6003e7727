"""The one domain in which a gang gathers: a total order over domains, compared exactly.

Rules: `engine#domain-order`, `engine#verdicts`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from bigfleet.model.decision import CANDIDATE_LIMIT, DomainCoverage
from bigfleet.model.resources import ZERO, Resources


@dataclass(slots=True)
class Domain:
    """What one value of the Same key holds for one gang."""

    value: str
    count: int = 0
    total: Resources = ZERO
    """T: all members."""
    creditable: Resources = ZERO
    """C: members that are there or on order."""
    own: Resources = ZERO
    """O: creditable members stamped for exactly this gang."""


def coverage(have: Resources, wanted: Resources) -> Fraction:
    """Sum over the wanted dimensions of the part that is there, each at most 1."""
    parts = (min(Fraction(1), Fraction(have.amount(name), amount)) for name, amount in wanted.items())
    return sum(parts, Fraction(0))


def overcommitment(have: Resources, wanted: Resources) -> Fraction:
    """Sum over the wanted dimensions of have / wanted, not capped."""
    return sum((Fraction(have.amount(name), amount) for name, amount in wanted.items()), Fraction(0))


def rank(domain: Domain, wanted: Resources) -> tuple[bool, Fraction, Fraction, Fraction, int, str]:
    """Sort key of a domain, the best one smallest; the columns are ranks 1 to 6 of the table in 7.4."""
    total, creditable = coverage(domain.total, wanted), coverage(domain.creditable, wanted)
    if domain.total.covers(wanted):
        own, excess = coverage(domain.own, wanted), overcommitment(domain.total, wanted)
        return (False, -creditable, -own, excess, -domain.count, domain.value)
    return (True, -total, -creditable, Fraction(0), -domain.count, domain.value)


def choose(domains: Iterable[Domain], wanted: Resources) -> Domain | None:
    """The best domain; None when there is none."""
    return min(domains, key=lambda domain: rank(domain, wanted), default=None)


def summary(domains: Iterable[Domain], wanted: Resources) -> tuple[DomainCoverage, ...]:
    """The best domains by their worst dimension, as the verdict shows them (`engine#verdicts`)."""
    found = [
        DomainCoverage(domain.value, per_mille(domain.total, wanted), domain.total.covers(wanted))
        for domain in domains
    ]
    found.sort(key=lambda entry: (-entry.coverage_per_mille, entry.domain))
    return tuple(found[:CANDIDATE_LIMIT])


def per_mille(have: Resources, wanted: Resources) -> int:
    """The worst wanted dimension in thousandths, rounded down; 1000 when nothing is wanted."""
    parts = (1000 * min(have.amount(name), amount) // amount for name, amount in wanted.items())
    return min(parts, default=1000)
