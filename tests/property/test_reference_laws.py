"""Laws of decisions on random situations: L-01 to L-09, K-02 and K-03 of the oracle, and what follows from 10.1."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.engine.cycle import decide_situation
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.buckets import PINNED
from bigfleet.model.decision import Decision, Reason, Verdict
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import CapacityType, HostRef, Machine, MachineState, Shape
from bigfleet.model.matching import matches
from bigfleet.model.need import Need
from bigfleet.model.resources import ZERO, Resources
from bigfleet.model.situation import Situation
from tests.reference.domains import Domain, choose
from tests.reference.model import decide
from tests.reference.supply import counts_as
from tests.support.engine.carry_out import carried_out
from tests.support.engine.world import Engine
from tests.support.situations import NOW, SIZES, Kind, situations

EXAMPLES = settings(max_examples=30, deadline=None)
SILENT_BY = 8  # cycles; of 3,000 random fleets the slowest was silent in the third

engines = pytest.mark.parametrize("engine", [decide, decide_situation], ids=["reference", "production"])


def machine_of(situation: Situation, machine_id: str) -> Machine:
    return next(machine for machine in situation.machines if machine.id == machine_id)


def capacity(situation: Situation, verdict: Verdict) -> Resources:
    return sum((counts_as(machine_of(situation, claim), verdict.need) for claim in verdict.claimed), ZERO)


def of_kind(decision: Decision, kind: ActionKind) -> list[Action]:
    return [action for action in decision.actions if action.kind is kind]


@pytest.mark.rule("engine#l-01")
@engines
@EXAMPLES
@given(situation=situations())
def test_no_machine_is_claimed_twice_and_every_claim_matches_and_covers_the_unit(
    engine: Engine, situation: Situation
) -> None:
    decision = engine(situation)
    counted = Counter(claim for verdict in decision.verdicts for claim in verdict.claimed)
    assert set(counted.values()) <= {1}
    for verdict in decision.verdicts:
        for claim in verdict.claimed:
            machine = machine_of(situation, claim)
            assert matches(machine, verdict.need.profile)
            assert counts_as(machine, verdict.need).covers(verdict.need.unit)


@pytest.mark.rule("engine#l-02")
@engines
@EXAMPLES
@given(situation=situations())
def test_a_gang_gathers_in_one_domain_the_recorded_one(engine: Engine, situation: Situation) -> None:
    for verdict in engine(situation).verdicts:
        key = verdict.need.profile.same_key
        if key is None:
            assert verdict.domain is None
            continue
        values = {machine_of(situation, claim).label(key) for claim in verdict.claimed}
        assert len(values) <= 1
        assert verdict.domain is None or values <= {verdict.domain}


@pytest.mark.rule("engine#l-03")
@engines
@EXAMPLES
@given(situation=situations())
def test_what_is_bound_and_not_claimed_is_reclaimed_and_nothing_claimed_is_deleted(
    engine: Engine, situation: Situation
) -> None:
    decision = engine(situation)
    claimed = {claim for verdict in decision.verdicts for claim in verdict.claimed}
    reported = situation.reported_clusters
    excess = {
        machine.id
        for machine in situation.machines
        if machine.state is MachineState.CONFIGURED
        and machine.id not in claimed
        and (reported is None or machine.cluster in reported)
    }
    reclaimed = [action.machine_id for action in of_kind(decision, ActionKind.RECLAIM)]
    assert len(reclaimed) == len(excess)
    assert set(reclaimed) == excess
    assert not claimed & {action.machine_id for action in of_kind(decision, ActionKind.DELETE)}


@pytest.mark.rule("engine#l-04")
@engines
@EXAMPLES
@given(situation=situations())
def test_the_deficit_is_the_total_less_all_claims(engine: Engine, situation: Situation) -> None:
    for verdict in engine(situation).verdicts:
        assert verdict.deficit == verdict.need.total - capacity(situation, verdict)
        assert (verdict.reason is Reason.SATISFIED) == verdict.satisfied == (verdict.matching_supply is None)


@pytest.mark.rule("engine#l-05")
@engines
@EXAMPLES
@given(situation=situations())
def test_a_victim_is_of_lower_priority_covers_the_unit_and_lies_in_the_domain(
    engine: Engine, situation: Situation
) -> None:
    decision = engine(situation)
    holders = {claim: verdict.need for verdict in decision.verdicts for claim in verdict.claimed}
    victims = of_kind(decision, ActionKind.PREEMPT)
    assert len({action.machine_id for action in victims}) == len(victims)
    for action in victims:
        assert action.need is not None
        verdict = decision.verdicts[action.need]
        need, victim = verdict.need, machine_of(situation, action.machine_id)
        assert need.profile.priority > victim.assigned.priority
        assert counts_as(victim, need).covers(need.unit)
        assert need.profile.same_key is None or victim.label(need.profile.same_key) == verdict.domain
        holder = holders.get(victim.id)  # `engine#victims`
        assert holder is None or holder.profile.precedence < need.profile.precedence


@pytest.mark.rule("engine#l-10")
@engines
@EXAMPLES
@given(situation=situations())
def test_nothing_is_taken_or_preempted_for_a_need_that_it_costs_without_end(
    engine: Engine, situation: Situation
) -> None:
    decision = engine(situation)
    for action in decision.actions:
        if action.need is not None:
            machine = machine_of(situation, action.machine_id)
            assert not costs_without_end(machine, decision.verdicts[action.need].need)


def costs_without_end(machine: Machine, need: Need) -> bool:
    return need.profile.interruption_bucket == PINNED and machine.shape.interruption_probability > 0


STRANGER = Machine(
    "stranger",
    MachineState.IDLE,
    Shape(
        "alien", "mars", CapacityType.SPOT, resources=FrozenMap({"gpu": "8", "cpu": "64", "memory": "1Ti"})
    ),
    host=HostRef("rack", "stranger"),
    idle_since=NOW - 3600,
)


@pytest.mark.rule("engine#l-06")
@engines
@EXAMPLES
@given(situation=situations())
def test_a_machine_that_matches_nobody_changes_only_its_own_release(
    engine: Engine, situation: Situation
) -> None:
    # Nor as part of a folded gang, whose profile has lost its Same.
    strangers = tuple(need for need in situation.needs if not matches(STRANGER, need.profile.without_same))
    everybody = len(strangers) == len(situation.needs)
    before = situation if everybody else replace(situation, needs=strangers)
    after = replace(before, machines=(STRANGER, *situation.machines))
    plain, crowded = engine(before), engine(after)
    kept = tuple(action for action in crowded.actions if action.machine_id != STRANGER.id)
    own = [action.kind for action in crowded.actions if action.machine_id == STRANGER.id]
    assert replace(crowded, actions=kept) == plain
    assert own == ([ActionKind.DELETE] if situation.holds.spot_s else [])


VECTORS = st.sampled_from([{}, *SIZES]).map(Resources.parse)
DOMAINS = st.lists(
    st.builds(
        lambda value, counts, own, extra: Domain(value, counts, own + own + extra, own + own, own),
        st.text("abc", min_size=1, max_size=2),
        st.integers(1, 3),
        VECTORS,
        VECTORS,
    ),
    max_size=6,
    unique_by=lambda domain: domain.value,
)


@pytest.mark.rule("engine#l-07")
@settings(max_examples=300, deadline=None)
@given(DOMAINS.flatmap(lambda met: st.tuples(st.just(met), st.permutations(met))), VECTORS, st.integers(1, 4))
def test_the_domain_does_not_depend_on_the_order_in_which_domains_are_met(
    orders: tuple[list[Domain], list[Domain]], member: Resources, count: int
) -> None:
    wanted = member.scaled(count)
    chosen = choose(orders[0], wanted)
    assert chosen is choose(orders[1], wanted)
    if chosen is not None and any(domain.total.covers(wanted) for domain in orders[0]):
        assert chosen.total.covers(wanted)


PLAIN = replace(STRANGER, shape=Shape(resources=FrozenMap(SIZES[2])))
"""A machine of the one size that the next law knows."""


def machines_needed(total: Resources, size: Resources) -> int | None:
    """The machines of one size that cover a total; None when no number of them does."""
    if any(not size.amount(name) for name in total):
        return None
    return max((-(-amount // size.amount(name)) for name, amount in total.items()), default=0)


@pytest.mark.rule("engine#l-08")
@engines
@EXAMPLES
@given(situation=situations(Kind(gangs=False, spreads=False, sizes=SIZES[2:3])))
def test_plain_needs_claim_as_many_machines_as_it_takes_as_far_as_supply_reaches(
    engine: Engine, situation: Situation
) -> None:
    decision = engine(situation)
    claimed = {claim for verdict in decision.verdicts for claim in verdict.claimed}
    free = [
        machine
        for machine in situation.machines
        if machine.state in (MachineState.IDLE, MachineState.SPECULATIVE) and machine.id not in claimed
    ]
    for verdict in decision.verdicts:
        wanted = machines_needed(verdict.need.total, counts_as(PLAIN, verdict.need))
        if wanted is None or len(verdict.claimed) < wanted:
            assert not any(can_serve(machine, verdict.need) for machine in free)
        else:
            assert len(verdict.claimed) == wanted


def can_serve(machine: Machine, need: Need) -> bool:
    pinned = need.profile.pinned_types
    return (
        matches(machine, need.profile)
        and not costs_without_end(machine, need)
        and counts_as(machine, need).covers(need.unit)
        and (not pinned or machine.shape.instance_type in pinned)
    )


def with_sufficient_supply(engine: Engine, situation: Situation) -> Situation:
    """The situation less the needs that it cannot satisfy."""
    while True:
        met = [verdict.folded_from for verdict in engine(situation).verdicts if verdict.satisfied]
        kept = sorted(place for places in met for place in places)
        if len(kept) == len(situation.needs):
            return situation
        situation = replace(situation, needs=tuple(situation.needs[place] for place in kept))


@pytest.mark.rule("engine#l-09")
@engines
@EXAMPLES
@given(situation=situations(Kind(max_machines=20, max_needs=4, parked=False)))
def test_carried_out_at_once_and_repeated_decisions_fall_silent(engine: Engine, situation: Situation) -> None:
    situation = with_sufficient_supply(engine, situation)
    # A need may claim machines that do not help it (`engine#c-16`). If it also takes the one bought for its neighbour,
    # another is bought in every cycle until none is left, and then there is silence. Nothing but such purchases may come
    # late.
    slots = sum(machine.state is MachineState.SPECULATIVE for machine in situation.machines)
    silent_by = SILENT_BY + slots
    for cycle in range(silent_by):
        decision = engine(situation)
        if not decision.actions:
            return
        if cycle >= SILENT_BY:
            assert {action.kind for action in decision.actions} == {ActionKind.PROVISION}
        situation = carried_out(situation, decision)
    pytest.fail(f"still acting after {silent_by} cycles: {engine(situation).actions}")


@pytest.mark.rule("engine#k-02")
@engines
@EXAMPLES
@given(situation=situations(Kind(distinct_priorities=True)), data=st.data())
def test_needs_of_different_priorities_may_come_in_any_order(
    engine: Engine, situation: Situation, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(situation.needs))))
    shuffled = replace(situation, needs=tuple(situation.needs[place] for place in order))
    one, other = engine(situation), engine(shuffled)
    assert by_given_need(one, range(len(order))) == by_given_need(other, order)
    assert {action._replace(need=None) for action in one.actions} == {
        action._replace(need=None) for action in other.actions
    }


def by_given_need(decision: Decision, order: range | list[int]) -> dict[int, Verdict]:
    """Verdicts by the place of their need in the unshuffled list."""
    return {
        order[place]: verdict._replace(folded_from=())
        for verdict in decision.verdicts
        for place in verdict.folded_from
    }


@pytest.mark.rule("engine#k-03")
@engines
@EXAMPLES
@given(situation=situations(), data=st.data())
def test_machines_may_come_in_any_order(engine: Engine, situation: Situation, data: st.DataObject) -> None:
    machines = data.draw(st.permutations(situation.machines))
    assert engine(replace(situation, machines=tuple(machines))) == engine(situation)


@engines
@EXAMPLES
@given(situation=situations())
def test_folding_loses_no_need_and_no_amount(engine: Engine, situation: Situation) -> None:
    verdicts = engine(situation).verdicts
    places = [place for verdict in verdicts for place in verdict.folded_from]
    assert sorted(places) == list(range(len(situation.needs)))
    for verdict in verdicts:
        members = [situation.needs[place] for place in verdict.folded_from]
        assert verdict.need.total == sum((member.total for member in members), ZERO)
        assert verdict.need in members or all(member.profile.same_key for member in members)


@engines
@EXAMPLES
@given(situation=situations())
def test_every_action_fits_its_machine_and_carries_the_fields_of_its_kind(
    engine: Engine, situation: Situation
) -> None:
    decision = engine(situation)
    for action in decision.actions:
        machine = machine_of(situation, action.machine_id)
        need = None if action.need is None else decision.verdicts[action.need].need
        assert action == expected_action(action.kind, machine, need, action)
        assert machine.state is STATE_OF[action.kind]
    kinds = [list(ActionKind).index(action.kind) for action in decision.actions]
    phases = [max(kind, 1) for kind in kinds]  # Bootstraps and Provisions alternate from need to need
    assert phases == sorted(phases)


STATE_OF = {
    ActionKind.BOOTSTRAP: MachineState.IDLE,
    ActionKind.PROVISION: MachineState.SPECULATIVE,
    ActionKind.PREEMPT: MachineState.CONFIGURED,
    ActionKind.RECLAIM: MachineState.CONFIGURED,
    ActionKind.DELETE: MachineState.IDLE,
}


def expected_action(kind: ActionKind, machine: Machine, need: Need | None, given_action: Action) -> Action:
    """The table of `engine#actions` and `engine#action-order`."""
    if kind is ActionKind.DELETE:
        return Action(kind, machine.id, grace_s=0)
    if kind is ActionKind.RECLAIM:
        return Action(kind, machine.id, cluster=machine.cluster, grace_s=600, preemptor_priority=0)
    assert need is not None
    if kind is ActionKind.PREEMPT:
        assert given_action.grace_s in (10, 30, 120, 600)
        return Action(
            kind,
            machine.id,
            cluster=machine.cluster,
            need=given_action.need,
            grace_s=given_action.grace_s,
            preemptor_priority=need.profile.priority,
        )
    fingerprint = need.profile.fingerprint
    return Action(
        kind,
        machine.id,
        cluster=need.cluster,
        fingerprint=fingerprint,
        group=need.group,
        need=given_action.need,
    )
