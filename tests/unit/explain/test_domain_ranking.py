"""Domains are ranked as the engine ranks them, each with what puts it behind the one before."""

from bigfleet.engine.reporter import DomainReport
from bigfleet.explain.domain_ranking import ranked
from bigfleet.model.decision import DomainCoverage, Verdict
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.model.resources import ZERO, Resources
from tests.support.builders import amounts

GANG = Need("x", Profile((Requirement("rack", RequirementOperator.SAME),)), amounts(gpu=16))


def note(value: str, total: int, creditable: int = 0, own: int = 0, count: int | None = None) -> DomainReport:
    def gpus(number: int) -> Resources:
        return amounts(gpu=number) if number else ZERO

    return DomainReport(
        value, total // 8 if count is None else count, gpus(total), gpus(creditable), gpus(own)
    )


def order(*notes: DomainReport) -> list[tuple[str, str]]:
    return [(item.value, item.decided_by) for item in ranked(Verdict(GANG, (0,)), notes)]


def test_every_rank_decides_where_those_before_it_are_equal() -> None:
    assert order(
        note("f", 8),
        note("e", 24),
        note("d", 16),
        note("c", 32, creditable=8),
        note("b", 24, creditable=8, own=8),
        note("a", 24, creditable=16),
        note("empty", 0),
    ) == [
        ("a", ""),
        ("b", "held already"),
        ("c", "held for this very gang"),
        ("d", "held already"),
        ("e", "tightest fit"),
        ("f", "fits"),
    ]
    assert order(note("b", 16), note("a", 16), note("c", 16, count=3)) == [
        ("c", ""),
        ("a", "machines"),
        ("b", "name"),
    ]


def test_where_none_fits_coverage_comes_first_and_own_machines_play_no_part() -> None:
    assert order(note("c", 8), note("b", 8, creditable=8, own=8), note("a", 8, creditable=8)) == [
        ("a", ""),
        ("b", "name"),
        ("c", "held already"),
    ]


def test_shares_are_told_per_mille_and_the_chosen_domain_is_marked() -> None:
    verdict = Verdict(GANG, (0,), domain="a")
    best, other = ranked(verdict, [note("a", 24, creditable=8, own=8), note("b", 8)])
    assert (best.chosen, best.satisfiable, best.coverage_per_mille, best.count) == (True, True, 1000, 3)
    assert (best.creditable_per_mille, best.own_per_mille, best.overcommitment_per_mille) == (500, 500, 1500)
    assert (other.chosen, other.satisfiable, other.coverage_per_mille) == (False, False, 500)


def test_without_notes_the_candidates_of_the_verdict_are_told() -> None:
    verdict = Verdict(GANG, (0,), domain="a", same_candidates=(DomainCoverage("a", 700, False),))
    (only,) = ranked(verdict, None)
    assert (only.value, only.chosen, only.coverage_per_mille, only.count) == ("a", True, 700, None)
