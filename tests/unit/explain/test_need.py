"""Refusals of a large fleet: listed up to a bound, and always adding up to the fleet (`dashboard#explain-classes`)."""

from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.explain.fit import FitResult
from bigfleet.explain.fleet_summary import REFUSALS_SHOWN
from bigfleet.explain.need import NeedExplanation, explain_need
from bigfleet.explain.redecide import Redecider
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.model.situation import Situation
from tests.support.builders import amounts, assigned, machine


def explained(clusters: int) -> NeedExplanation:
    fleet = tuple(
        machine(f"m-{n:04d}", S.CONFIGURED, cluster=f"c-{n % clusters:04d}", assigned=assigned(900))
        for n in range(2 * clusters)
    )
    situation = Situation(0.0, fleet, (Need("short", Profile(), amounts(cpu=4)),))
    cycle = Redecider().cycle(SnapshotDocument(situation, (0,)))
    return explain_need(cycle, 0)


def test_few_refusals_are_told_one_by_one() -> None:
    refusals = explained(REFUSALS_SHOWN).refusals
    assert len(refusals) == REFUSALS_SHOWN
    assert {item.count for item in refusals} == {2}


def test_of_many_the_smallest_are_put_together_and_no_machine_is_lost() -> None:
    explanation = explained(400)
    refusals = explanation.refusals
    assert len(refusals) == REFUSALS_SHOWN
    assert sum(item.count for item in refusals) == explanation.machines == 800
    last = refusals[-1]
    assert (last.result, last.detail) == (FitResult.OTHER_CLUSTER, "351 others")
    assert (last.count, len(last.examples)) == (702, 5)
    assert "only preemption or a reclaim frees it" in last.remedy
