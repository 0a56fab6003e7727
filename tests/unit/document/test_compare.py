"""Two decisions side by side: needs are followed through renumbering, folding and new fingerprints; money is counted once."""

import math
from typing import Any

import pytest

from bigfleet.document.compare import Comparison, NeedChangeKind, Side, compare
from bigfleet.document.compare_costs import priority_class
from bigfleet.document.compare_document import comparison_document
from bigfleet.document.edits import apply_edits, edits_of
from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.engine.cycle import decide_situation
from bigfleet.model.action import ActionKind
from bigfleet.model.buckets import bucket_of
from bigfleet.model.machine import Machine, MachineState
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.model.situation import Situation
from tests.support.builders import amounts, assigned, machine, shape

S = MachineState
NOW = 1000.0


def need(cluster: str = "a", cpu: int = 4, priority: int = 100, group: str = "", same: str = "") -> Need:
    requirements = (Requirement(same, RequirementOperator.SAME),) if same else ()
    return Need(
        cluster, Profile(requirements, priority=priority), amounts(cpu=cpu), amounts(cpu=4), group=group
    )


def side(machines: list[Machine], needs: list[Need]) -> Side:
    situation = Situation(NOW, tuple(machines), tuple(needs))
    return Side(SnapshotDocument(situation, tuple(range(len(needs)))), decide_situation(situation))


def changed(before: Side, *edits: dict[str, object]) -> Comparison:
    edited = apply_edits(before.document, edits_of(edits))
    after = Side(edited.document, decide_situation(edited.document.situation))
    return compare(before, after, edited.numbers)


def changes_of(comparison: Comparison) -> dict[tuple[int, ...], NeedChangeKind]:
    return {item.numbers: item.change for item in comparison.needs}


def idle(*ids: str) -> list[Machine]:
    return [machine(machine_id, S.IDLE, idle_since=NOW) for machine_id in ids]


def test_equal_decisions_are_the_same_whatever_order_their_documents_have() -> None:
    first = side(idle("m1", "m2"), [need("a"), need("b")])
    second = side(idle("m2", "m1"), [need("b"), need("a")])
    assert compare(first, first).same
    # Which of two equal needs gets which of two equal machines follows list order, and is reported.
    assert changes_of(compare(first, second)) == {
        (0,): NeedChangeKind.OTHER_MACHINES,
        (1,): NeedChangeKind.OTHER_MACHINES,
    }


def test_needs_are_known_by_cluster_fingerprint_and_group_where_no_edit_numbers_them() -> None:
    first = side(idle("m1"), [need("a", priority=200), need("b")])
    second = side(idle("m1", "m2"), [need("new", 0), need("b"), need("a", priority=200)])
    assert changes_of(compare(first, second)) == {(1,): NeedChangeKind.SATISFIED, (2,): NeedChangeKind.ADDED}


def test_a_need_that_changes_its_priority_is_the_same_need() -> None:
    before = side(idle("m1"), [need("a", priority=200), need("b")])
    raised = changed(before, {"edit": "change_needs", "where": {"cluster": "b"}, "to": {"priority": 300}})
    assert changes_of(raised) == {(0,): NeedChangeKind.SHORT, (1,): NeedChangeKind.SATISFIED}
    (moved,) = raised.machines
    assert moved.before is not None
    assert moved.after is not None
    assert (moved.before.cluster, moved.after.cluster) == ("a", "b")


def test_more_and_less_of_a_shortfall_are_told_apart() -> None:
    before = side(idle("m1"), [need("a", 12)])
    assert changes_of(changed(before, {"edit": "change_needs", "where": {}, "scale": 2})) == {
        (0,): NeedChangeKind.SHORTER
    }
    assert changes_of(changed(before, {"edit": "add_machines", "like": "m1"})) == {
        (0,): NeedChangeKind.LESS_SHORT
    }
    other: dict[str, object] = {
        "edit": "change_needs",
        "where": {},
        "to": {"total": {"memory": "64Gi"}, "unit": {}},
    }
    assert changes_of(changed(before, other)) == {(0,): NeedChangeKind.SHORT_OTHERWISE}


def test_a_folded_class_is_one_change_and_a_class_that_falls_apart_is_several() -> None:
    gangs = [need("a", 4, group=name, same="rack") for name in "ABC"]
    rack = shape(labels={"rack": "r1"})
    before = side([machine("m1", S.IDLE, shape=rack)], gangs)
    more = changed(before, {"edit": "add_machines", "count": 2, "like": "m1"})
    assert changes_of(more) == {(0, 1, 2): NeedChangeKind.SATISFIED}
    apart = changed(before, {"edit": "change_machines", "where": {}, "to": {"resources": {"cpu": "3"}}})
    assert set(changes_of(apart)) == {(0,), (1,), (2,)}


def test_added_and_removed_needs_and_machines_are_told() -> None:
    before = side(idle("m1"), [need("a")])
    result = changed(before, {"edit": "remove_needs", "where": {}}, {"edit": "remove_machines", "where": {}})
    assert changes_of(result) == {(0,): NeedChangeKind.REMOVED}
    assert [(item.machine_id, item.after) for item in result.machines] == [("m1", None)]


def test_dollars_are_those_of_the_fleet_once_everything_is_done() -> None:
    at = {
        name: shape(price=price)
        for name, price in (("1", 1.0), ("2", 2.0), ("4", 4.0), ("8", 8.0), ("16", 16.0))
    }
    fleet = [
        machine("kept", S.CONFIGURED, shape=at["1"]),
        machine("excess", S.CONFIGURED, shape=at["2"]),  # reclaimed, so idle and paid
        machine("old", S.IDLE, shape=at["4"], idle_since=0.0),  # released, so not paid any more
        machine("spare", S.IDLE, shape=at["8"], idle_since=NOW),
        machine("slot", S.SPECULATIVE, shape=at["16"]),
        machine("broken", S.FAILED, shape=at["16"]),
        machine("going", S.DELETING, shape=at["16"]),
        machine("coming", S.CREATING, shape=at["4"]),
    ]
    costs = compare(side(fleet, [need()]), side(fleet, [need()])).before.costs
    assert (costs.serving, costs.waiting, costs.total) == (5.0, 10.0, 15.0)
    bought = side([machine("slot", S.SPECULATIVE, shape=at["16"])], [need()])
    assert compare(bought, bought).before.costs.serving == 16.0


def test_of_a_preempt_and_a_reclaim_of_one_machine_the_preempt_counts() -> None:
    gone = machine("v", S.CONFIGURED, cluster="gone", assigned=assigned(1))
    before = side([gone], [need("a", priority=1000)])
    assert [action.kind for action in before.decision.actions] == [ActionKind.PREEMPT, ActionKind.RECLAIM]
    (change,) = compare(side([], [need("a", priority=1000)]), before).machines
    assert change.after is not None
    assert change.after.action is ActionKind.PREEMPT


@pytest.mark.rule("dashboard#exposure")
def test_exposure_is_probability_times_stamped_penalty_and_pinned_work_at_risk_is_counted_apart() -> None:
    risky = shape(probability=0.25)
    # What runs on a machine counts, not the need to which the machine is credited.
    wanted = [Need("a", Profile(interruption_bucket=bucket_of(64)), amounts(cpu=4))]
    wanted += [Need("b", Profile(interruption_bucket=bucket_of(2)), amounts(cpu=4))]
    fleet = [
        machine("kept", S.CONFIGURED, shape=risky, cluster="a", assigned=assigned(1, 8.0)),
        machine("pinned", S.DRAINING, shape=risky, cluster="a", assigned=assigned(1, math.inf)),
        machine("taken", S.IDLE, shape=risky),
    ]
    both = side(fleet, wanted)
    assert [action.machine_id for action in both.decision.actions] == ["taken"]
    costs = compare(both, both).before.costs
    assert (costs.exposure, costs.pinned_at_risk) == (0.25 * 8 + 0.25 * 2, 1)


def test_shortfalls_are_counted_by_class_of_priority() -> None:
    assert [priority_class(value) for value in (2**31 - 1, 10**6, 10**6 - 1, 1000, 999, 100, 99, -5)] == [
        *("critical", "critical", "service", "service", "batch", "batch", "other", "other")
    ]
    short = side([], [need("a", priority=5), need("b", 8, priority=1000)])
    figures = compare(short, side([], [])).before
    assert figures.shortfalls == {"critical": 0, "service": 1, "batch": 0, "other": 1}
    assert figures.missing == amounts(cpu=12)


def test_the_document_names_both_sides_of_every_difference() -> None:
    before = side(idle("m1"), [need("a", 8)])
    written: dict[str, Any] = comparison_document(changed(before, {"edit": "add_machines", "like": "m1"}))
    assert written["same"] is False
    (change,) = written["needs"]
    assert (change["needs"], change["change"]) == ([0], "becomes satisfied")
    assert (change["before"]["deficit"], change["after"]["machines"]) == ({"cpu": "4"}, ["added-0000", "m1"])
    assert written["machines"] == [
        {
            "machine": "added-0000",
            "instance_type": "m5",
            "zone": "z1",
            "capacity_type": "OnDemand",
            "price_per_hour": 1.0,
            "before": None,
            "after": {"state": "Speculative", "needs": [0], "cluster": "a", "action": "Provision"},
        }
    ]
    assert written["missing"] == {"cpu": {"before": "4", "after": "0"}}
    assert comparison_document(compare(before, before))["same"] is True
