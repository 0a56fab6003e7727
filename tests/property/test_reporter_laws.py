"""Laws of the reporter: it changes no decision, hears of every need once, and hears what the decision says."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from bigfleet.document.decisions import write_decision
from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.engine.cycle import decide_situation
from bigfleet.engine.planner import Planner
from bigfleet.engine.reporter import DomainReport, PickReport, Reporter, VictimReport
from bigfleet.explain.domain_ranking import ranked
from bigfleet.explain.preemption import preemption_of
from bigfleet.explain.redecide import Redecider
from bigfleet.model.action import ActionKind
from bigfleet.model.decision import Decision
from bigfleet.model.demand import Demand
from bigfleet.model.inventory import Inventory
from bigfleet.model.need import Need
from bigfleet.model.situation import Situation
from tests.support.engine.world import EngineWorld
from tests.support.golden import replay
from tests.support.situations import situations

QUICK = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
SCRIPTS = Path(__file__).parents[1] / "golden" / "engine"


@dataclass
class Heard(Reporter):
    """Everything that was reported, and how often."""

    calls: Counter[tuple[str, int]] = field(default_factory=Counter)
    needs: Sequence[Need] = ()
    sources: Sequence[Sequence[int]] = ()
    credits: dict[int, PickReport] = field(default_factory=dict)
    weighed: dict[int, tuple[Sequence[DomainReport], str | None]] = field(default_factory=dict)
    acquisitions: dict[int, tuple[PickReport, PickReport]] = field(default_factory=dict)
    notes: dict[int, VictimReport] = field(default_factory=dict)
    given_up: tuple[str, ...] = ()
    kept_unreported: int = 0
    given_back: tuple[str, ...] = ()

    def demand(self, needs: Sequence[Need], sources: Sequence[Sequence[int]]) -> None:
        self.needs, self.sources = needs, sources

    def credited(self, need: int, pick: PickReport) -> None:
        self.calls[("credited", need)] += 1
        self.credits[need] = pick

    def domains(self, need: int, notes: Sequence[DomainReport], chosen: str | None) -> None:
        self.calls[("domains", need)] += 1
        self.weighed[need] = (notes, chosen)

    def acquired(self, need: int, idle: PickReport, speculative: PickReport) -> None:
        self.calls[("acquired", need)] += 1
        self.acquisitions[need] = (idle, speculative)

    def victims(self, need: int, note: VictimReport) -> None:
        self.calls[("victims", need)] += 1
        self.notes[need] = note

    def reclaimed(self, machines: Sequence[str], kept_unreported: int) -> None:
        self.given_up, self.kept_unreported = tuple(machines), kept_unreported

    def released(self, machines: Sequence[str]) -> None:
        self.given_back = tuple(machines)


def written(situation: Situation, decision: Decision) -> bytes:
    return write_decision(situation, decision)


@pytest.mark.rule("dashboard#engine-explains")
@QUICK
@given(situations())
def test_a_decision_is_the_same_to_the_byte_with_and_without_a_reporter(situation: Situation) -> None:
    alone = written(situation, decide_situation(situation))
    assert written(situation, decide_situation(situation, Reporter())) == alone
    assert written(situation, decide_situation(situation, Heard())) == alone


@pytest.mark.rule("dashboard#engine-explains")
@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_every_script_of_the_oracle_is_answered_alike_while_somebody_listens(path: Path) -> None:
    script = path.read_text(encoding="utf-8")
    assert (
        replay(script, EngineWorld(lambda situation: decide_situation(situation, Heard())).command) == script
    )


@QUICK
@given(situations())
def test_what_is_told_is_what_was_decided(situation: Situation) -> None:
    heard = Heard()
    decision = decide_situation(situation, heard)
    assert [verdict.need for verdict in decision.verdicts] == list(heard.needs)
    assert [tuple(verdict.folded_from) for verdict in decision.verdicts] == list(heard.sources)
    assert set(heard.calls.values()) <= {1}
    for place, verdict in enumerate(decision.verdicts):
        idle, speculative = heard.acquisitions.get(place, (PickReport(0, ()), PickReport(0, ())))
        credit = heard.credits[place]
        assert sorted((*credit.taken, *idle.taken, *speculative.taken)) == list(verdict.claimed)
        assert (sorted(idle.taken), sorted(speculative.taken)) == (
            list(verdict.bootstrapped),
            list(verdict.provisioned),
        )
        assert all(pick.considered >= len(pick.taken) for pick in (credit, idle, speculative))
    preempted = [action.machine_id for action in decision.actions if action.kind is ActionKind.PREEMPT]
    assert sorted(preempted) == sorted(name for note in heard.notes.values() for name in note.taken)
    for kind, reported in ((ActionKind.RECLAIM, heard.given_up), (ActionKind.DELETE, heard.given_back)):
        assert tuple(action.machine_id for action in decision.actions if action.kind is kind) == reported
    assert situation.reported_clusters is not None or heard.kept_unreported == 0


@QUICK
@given(situations())
def test_explanations_agree_with_what_the_engine_told(situation: Situation) -> None:
    heard = Heard()
    cycle = Redecider().cycle(SnapshotDocument(situation, tuple(range(len(situation.needs)))), heard)
    for place, note in heard.notes.items():
        found = preemption_of(cycle, place)
        assert found is not None
        assert found.in_flight == note.in_flight
        assert tuple(victim.machine.id for victim in found.taken) == note.taken
        if not cycle.open_after_preemption(place).is_zero:
            # Whoever asks last sees what is left; those who were covered stopped asking before.
            assert found.left == 0
    for place, (notes, chosen) in heard.weighed.items():
        verdict = cycle.verdict(place)
        assert chosen == verdict.domain
        order = ranked(verdict, notes)
        assert [item.value for item in order if item.chosen] == [item.value for item in order[:1]]
        best = {item.domain: item.coverage_per_mille for item in verdict.same_candidates}
        assert {item.value: item.coverage_per_mille for item in order if item.value in best} == best


@settings(QUICK, max_examples=20)
@given(situations())
def test_a_planner_that_is_listened_to_tells_everything_every_time(situation: Situation) -> None:
    heard = Heard()
    planner = Planner(reporter=heard)
    inventory = Inventory()
    for machine in situation.machines:
        inventory.insert(machine, None)
    snapshot, demand = inventory.snapshot(), Demand.listed(situation.needs)
    for cycle in (1, 2):
        planner.decide(
            snapshot,
            demand,
            parked=situation.parked,
            reported_clusters=situation.reported_clusters,
            holds=situation.holds,
            now=situation.now,
        )
        assert set(heard.calls.values()) <= {cycle}
