"""Proposed changes are tried first, bounded in number, and name the needs that they harm."""

from collections.abc import Callable

import pytest

from bigfleet.document.compare import NeedChangeKind
from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.engine.cycle import decide_situation
from bigfleet.explain.changes import DEFAULT_TRIES, Proposal, ProposalEffect, propose, tries_for
from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.model.decision import Decision
from bigfleet.model.situation import Situation

MakeCycle = Callable[[str], DecidedCycle]


def document_of(cycle: DecidedCycle) -> SnapshotDocument:
    return SnapshotDocument(cycle.situation, tuple(range(len(cycle.situation.needs))))


def proposed(cycle: DecidedCycle, place: int = 0, tries: int | None = None) -> dict[str, Proposal]:
    found = propose(cycle, document_of(cycle), place, decide_situation, tries)
    return {item.words: item for item in found}


def test_machines_are_proposed_by_kind_with_the_number_that_was_seen_to_suffice(
    make_cycle: MakeCycle,
) -> None:
    found = proposed(make_cycle("machine i1 Idle $3\nmachine s1 Speculative $2 zone=zb\nneed x 5xG"))
    edits = found["3 more machines of type a3 in zone zb (BareMetal, $2/h)"].edits
    assert edits == ({"edit": "add_machines", "count": 3, "like": "s1"},)
    assert found["3 more machines of type a3 in zone z1 (BareMetal, $3/h)"].cost_difference == 9


def test_needs_that_come_first_make_it_take_more_and_the_least_number_is_looked_for(
    make_cycle: MakeCycle,
) -> None:
    found = proposed(make_cycle("machine i1 Idle\nneed ahead 4xG P2000\nneed x 2xG"), place=1)
    assert "5 more machines of type a3 in zone z1 (BareMetal, $0/h)" in found


def test_a_higher_priority_tells_whom_it_hurts(make_cycle: MakeCycle) -> None:
    found = proposed(make_cycle("machine i1 Idle\nneed a 1xG P2000\nneed b 1xG P1000"), place=1)
    raised = found["priority 2001 instead of 1000"]
    assert raised.effect is ProposalEffect.SATISFIED
    assert [(hurt.numbers, hurt.cluster, hurt.change) for hurt in raised.hurts] == [
        ((0,), "a", NeedChangeKind.SHORT)
    ]


def test_a_priority_that_preempts_says_that_machines_must_drain_first(make_cycle: MakeCycle) -> None:
    found = proposed(make_cycle("machine v1 Configured @a P1000\nneed a 1xG\nneed b 1xG"), place=1)
    raised = found["priority 1001 instead of 1000"]
    assert (raised.effect, raised.preempted) == (ProposalEffect.PREEMPTS, 1)


def test_a_need_that_waits_for_drains_already_is_not_told_to_wait(make_cycle: MakeCycle) -> None:
    cycle = make_cycle("machine v1 Configured @a P10\nneed a 1xG P10\nneed b 1xG")
    assert cycle.open_after_preemption(1).is_zero
    assert all(item.effect is ProposalEffect.SATISFIED for item in proposed(cycle, 1).values())


def test_a_smaller_total_a_dropped_requirement_and_a_smaller_unit_are_proposed(make_cycle: MakeCycle) -> None:
    found = proposed(make_cycle("machine i1 Idle\nneed x 2xG"))
    assert found["a total of gpu=8 instead of gpu=16"].edits[0]["to"] == {"total": {"gpu": "8"}}
    found = proposed(make_cycle("machine i1 Idle type=b7\nneed x 1xG"))
    assert "without the requirement node.kubernetes.io/instance-type In a3" in found
    found = proposed(make_cycle("machine i1..i2 Idle gpu=4\nneed x 1xG"))
    assert "a unit of gpu=4 instead of gpu=8" in found


def test_a_spread_that_binds_may_be_dropped(make_cycle: MakeCycle) -> None:
    lines = "machine a1 Idle zone=za\nmachine b1..b3 Idle zone=zb\nneed x 4xG spread=zone:1"
    assert "without the spread" in proposed(make_cycle(lines))


def test_a_parked_gang_is_only_let_try_where_that_suffices_and_helped_besides_where_not(
    make_cycle: MakeCycle,
) -> None:
    served = "machine a1..a2 Idle rack=r\nneed x 2xG same=rack\npark x"
    assert list(proposed(make_cycle(served))) == ["let the parked gang try again"]
    short = "machine a1 Idle rack=r\nneed x 2xG same=rack\npark x"
    found = proposed(make_cycle(short))
    assert found
    assert all(item.edits[0] == {"edit": "unpark", "where": {"needs": [0]}} for item in found.values())


def test_of_folded_gangs_as_many_are_left_out_as_do_not_fit(make_cycle: MakeCycle) -> None:
    gangs = "\n".join(f"need x 1xG same=zone group={name}" for name in "ABC")
    found = proposed(make_cycle(f"machine i1..i2 Idle\n{gangs}"))
    assert found["without 1 of the 3 gangs that were folded"].edits[0]["where"] == {"needs": [2]}


def test_a_machine_is_made_up_where_the_fleet_has_none(make_cycle: MakeCycle) -> None:
    (only,) = proposed(make_cycle("need x 2xG same=rack spread=zone:1")).values()
    assert only.edits[0]["machine"] == {
        "instance_type": "a3",
        "zone": "new",
        "resources": {"gpu": "8"},
        "labels": {"rack": "new"},
    }


def test_a_satisfied_need_is_told_the_price_at_which_another_machine_wins(make_cycle: MakeCycle) -> None:
    lines = "machine s1 Speculative $2\nmachine s2 Speculative $5 prob=0.5\nneed x 1xG interruption=3"
    (only,) = proposed(make_cycle(lines)).values()
    assert (only.words, only.effect) == ("a price of $1.49/h for s2", ProposalEffect.OTHER_MACHINE)
    assert proposed(make_cycle("machine i1 Idle\nneed x 1xG")) == {}


def test_the_engine_is_run_as_often_as_allowed_and_no_more(make_cycle: MakeCycle) -> None:
    runs: list[Situation] = []

    def counted(situation: Situation) -> Decision:
        runs.append(situation)
        return decide_situation(situation)

    cycle = make_cycle("machine i1 Idle\nneed ahead 9xG P2000\nneed x 7xG")
    propose(cycle, document_of(cycle), 1, counted, tries=3)
    assert len(runs) == 3


@pytest.mark.parametrize(
    ("machines", "tries"), [(0, DEFAULT_TRIES), (12_500, 40), (100_000, 5), (500_000, 4), (10**7, 4)]
)
def test_large_fleets_get_fewer_tries(machines: int, tries: int) -> None:
    assert tries_for(machines) == tries
