"""A cycle in figures (`dashboard#answer-short`, `dashboard#answer-stock`)."""

import math

import pytest
from hypothesis import given

from bigfleet.document.compare_costs import costs_of
from bigfleet.model.decision import Decision
from bigfleet.model.machine import CapacityType
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.model.situation import Situation
from bigfleet.shard.core.read.figures import ClusterFigure, MachineFigure, cluster_figures, machine_figures
from tests.support.builders import amounts, assigned, machine, shape
from tests.support.shard_views import cycle_of
from tests.support.situations import situations

SPOT = shape(price=0.5, probability=0.1, capacity_type=CapacityType.SPOT)


def test_machines_are_counted_with_price_exposure_and_pinned_work_at_risk() -> None:
    fleet = (
        machine("a", S.IDLE, shape=shape(price=1.0)),
        machine("b", S.IDLE, shape=shape(price=2.0)),
        machine("c", S.CONFIGURED, shape=SPOT, assigned=assigned(1, 10.0)),
        machine("d", S.CONFIGURED, shape=SPOT, assigned=assigned(1, math.inf)),
        machine("e", S.SPECULATIVE, shape=SPOT),
    )
    assert machine_figures(cycle_of(Situation(0.0, fleet)).snapshot) == (
        MachineFigure("Speculative", "Spot", 1, 0.5, 0.0, 0),
        MachineFigure("Idle", "OnDemand", 2, 3.0, 0.0, 0),
        MachineFigure("Configured", "Spot", 2, 1.0, 1.0, 1),
    )


@given(situations())
def test_the_figures_add_up_to_the_fleet(situation: Situation) -> None:
    figures = machine_figures(cycle_of(situation).snapshot)
    assert sum(figure.count for figure in figures) == len(situation.machines)
    price = sum(item.shape.price_per_hour for item in situation.machines)
    assert math.isclose(sum(figure.price_per_hour for figure in figures), price, abs_tol=1e-6)


@pytest.mark.rule("dashboard#exposure")
@given(situations())
def test_exposure_to_interruption_is_what_a_comparison_counts_before_any_action(situation: Situation) -> None:
    figures = machine_figures(cycle_of(situation).snapshot)
    costs = costs_of(situation, Decision((), (), ()))
    in_cents = sum(figure.exposure_per_hour for figure in figures)
    assert math.isclose(in_cents, costs.exposure, abs_tol=0.005 * (len(figures) + 1))
    assert sum(figure.pinned_at_risk for figure in figures) == costs.pinned_at_risk


def test_a_cluster_is_listed_for_its_session_its_demand_or_its_machines() -> None:
    fleet = (machine("a", S.CONFIGURED, cluster="has"), machine("b", S.CONFIGURED, cluster="has"))
    need = Need("asks", Profile(), amounts(cpu=1), arrival_ns=77)
    view = cycle_of(
        Situation(0.0, fleet, (need, need)),
        sessions=frozenset({"listens"}),
        reported_clusters=frozenset({"asks", "listens"}),
    )
    assert cluster_figures(view) == (
        ClusterFigure("asks", connected=False, reported=True, rollup_ns=77, rows=2, machines=0),
        ClusterFigure(
            "has", connected=False, reported=False, rollup_ns=0, rows=0, machines=2, price_per_hour=2.0
        ),
        ClusterFigure("listens", connected=True, reported=True, rollup_ns=0, rows=0, machines=0),
    )
