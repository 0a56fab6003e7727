"""Laws of explanations and what-if on random situations, in which everything collides."""

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bigfleet.document.compare import Side, compare
from bigfleet.document.decisions import write_decision
from bigfleet.document.edits import apply_edits, edits_of, read_edits
from bigfleet.document.errors import DocumentError
from bigfleet.document.snapshot import SnapshotDocument, read_situation, write_document
from bigfleet.engine.cycle import decide, decide_situation
from bigfleet.explain import fleet_summary, preemption
from bigfleet.explain.changes import ProposalEffect, propose
from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.explain.document import machine_explanation_document, need_explanation_document
from bigfleet.explain.fit import FitChecker, FitResult
from bigfleet.explain.machine import explain_machine
from bigfleet.explain.need import NeedExplanation, explain_need
from bigfleet.explain.redecide import Redecider
from bigfleet.model.demand import Demand
from bigfleet.model.inventory import Inventory, wide_labels
from bigfleet.model.resources import ZERO
from bigfleet.model.situation import Situation
from tests.reference.explain import RecordCycle, explained_by_records
from tests.support.situations import situation_of, situations

QUICK = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
PARTS = range(2)  # side by side
SEEDS = st.integers(0, 2**62)
SHORT = settings(max_examples=150)
LONG = settings(max_examples=5_000)


def document_of(situation: Situation) -> SnapshotDocument:
    return SnapshotDocument(situation, tuple(range(len(situation.needs))))


def cycle_of(situation: Situation) -> DecidedCycle:
    return Redecider().cycle(document_of(situation))


def short_places(cycle: DecidedCycle) -> list[int]:
    return [place for place, verdict in enumerate(cycle.decision.verdicts) if not verdict.satisfied]


def proposals_suffice(situation: Situation, choose: Callable[[list[int]], int] = min) -> None:
    """Whatever is proposed for one need that is short, fed to what-if as text, satisfies the need as it says."""
    document, cycle = document_of(situation), cycle_of(situation)
    short = short_places(cycle)
    for place in [choose(short)] if short else []:
        numbers = set(cycle.numbers(place))
        for proposal in propose(cycle, document, place, Redecider(), tries=25):
            text = json.dumps({"edits": [dict(edit) for edit in proposal.edits]})
            edited = apply_edits(document, read_edits(text))
            after = decide_situation(edited.document.situation)
            places = {
                found
                for found, verdict in enumerate(after.verdicts)
                for source in verdict.folded_from
                if edited.numbers[edited.document.places[source]] in numbers
            }
            assert places, proposal.words
            if proposal.effect is ProposalEffect.SATISFIED:
                assert all(after.verdicts[found].satisfied for found in places), proposal.words
            else:
                assert proposal.effect is ProposalEffect.PREEMPTS
                assert not places & {left.need for left in after.unresolved}, proposal.words


def seeded_proposals_suffice(seed: int) -> None:
    rng = Random(seed)
    proposals_suffice(situation_of(rng.choice), rng.choice)


@pytest.mark.rule("dashboard#explain-changes")
@pytest.mark.parametrize("part", PARTS)
@given(seed=SEEDS)
@SHORT
def test_every_proposed_change_satisfies_the_need(part: int, seed: int) -> None:
    seeded_proposals_suffice(seed * len(PARTS) + part)


@settings(QUICK, max_examples=10)
@given(situations())
def test_every_proposed_change_satisfies_the_need_where_a_failure_is_made_small(situation: Situation) -> None:
    proposals_suffice(situation)


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS)
@given(seed=SEEDS)
@LONG
def test_every_proposed_change_satisfies_the_need_at_length(part: int, seed: int) -> None:
    seeded_proposals_suffice(seed * len(PARTS) + part)


def explanations_add_up(situation: Situation) -> None:
    cycle = cycle_of(situation)
    for place, verdict in enumerate(cycle.decision.verdicts):
        explanation = explain_need(cycle, place)
        counts_add_up(cycle, explanation)
        assert explanation.steps[-1].missing == verdict.deficit
        if verdict.satisfied:
            assert explanation.preemption is None
        else:
            assert not [item for item in explanation.refusals if item.result is FitResult.NOT_NEEDED]
            preemption_adds_up(cycle, explanation)


def counts_add_up(cycle: DecidedCycle, explanation: NeedExplanation) -> None:
    """What is chosen and what is refused is the fleet; what is chosen is what the engine claimed."""
    refused = sum(item.count for item in explanation.refusals)
    assert sum(item.count for item in explanation.chosen) + refused == len(cycle.machines)
    taken = dict.fromkeys(("kept", "on order", "bootstrapped", "provisioned"), 0)
    for item in explanation.chosen:
        if item.how in taken:
            taken[item.how] += item.count
    verdict = explanation.verdict
    assert sum(taken.values()) == len(verdict.claimed)
    assert taken["bootstrapped"] == len(verdict.bootstrapped)
    assert taken["provisioned"] == len(verdict.provisioned)


def preemption_adds_up(cycle: DecidedCycle, explanation: NeedExplanation) -> None:
    """What drains and what is preempted leaves open what the engine left open."""
    found = explanation.preemption
    assert found is not None
    freed = ZERO
    for machine_id in (*found.in_flight, *(victim.machine.id for victim in found.taken)):
        freed += explanation.verdict.need.counted(cycle.machines[machine_id].shape)
    left = explanation.verdict.deficit - freed
    assert left == explanation.open_after_preemption
    if not left.is_zero:
        assert found.left == 0  # every candidate was preempted


@pytest.mark.rule("dashboard#explain-classes")
@given(SEEDS)
@settings(max_examples=200)  # as many as (`dashboard#explain-classes`) asks for
def test_explanations_add_up_to_the_fleet_and_to_the_decision(seed: int) -> None:
    explanations_add_up(situation_of(Random(seed).choice))


@pytest.mark.long
@given(SEEDS)
@LONG
def test_explanations_add_up_at_length(seed: int) -> None:
    explanations_add_up(situation_of(Random(seed).choice))


@pytest.mark.rule("dashboard#explain-machine")
@settings(QUICK, max_examples=20)
@given(situations())
def test_every_machine_has_a_sentence_and_every_explanation_is_plain_json(situation: Situation) -> None:
    cycle = cycle_of(situation)
    for machine in situation.machines:
        written = machine_explanation_document(explain_machine(cycle, machine.id))
        assert str(written["sentence"]).endswith(".")
        assert json.loads(json.dumps(written, allow_nan=False)) == written
    for place in range(len(cycle.decision.verdicts)):
        written = need_explanation_document(explain_need(cycle, place))
        assert json.loads(json.dumps(written, allow_nan=False)) == written


def cycles_of(situation: Situation) -> tuple[DecidedCycle, RecordCycle]:
    """One decision, as explanations read it in columns and as the reference reads it in records."""
    inventory = Inventory()
    for machine in situation.machines:
        inventory.insert(machine, None)
    snapshot = inventory.snapshot()
    decision = decide(
        snapshot,
        situation.needs,
        parked=situation.parked,
        reported_clusters=situation.reported_clusters,
        holds=situation.holds,
        now=situation.now,
    )
    whole = replace(situation, machines=tuple(snapshot.machines()))
    bare = replace(situation, machines=(), needs=())
    in_columns = DecidedCycle(snapshot, decision, bare, Demand.listed(situation.needs))
    return in_columns, RecordCycle(document_of(whole), snapshot, decision)


@pytest.mark.parametrize("shown", [50, 2], ids=["all classes shown", "few classes shown"])
@pytest.mark.parametrize("many_values", [2000, 2], ids=["labels in shapes", "labels apart"])
@given(SEEDS)
@settings(SHORT, max_examples=75)
def test_columns_explain_what_records_explain(many_values: int, shown: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wide_labels, "MANY_VALUES", many_values)
        in_columns, in_records = cycles_of(situation_of(Random(seed).choice))
        # So that classes are put together as in a large fleet, and equally large ones have to be distinguished.
        patch.setattr(fleet_summary, "REFUSALS_SHOWN", shown)
        patch.setattr(fleet_summary, "COMPETITORS", min(shown, fleet_summary.COMPETITORS))
        patch.setattr(fleet_summary, "EXAMPLES", min(shown, fleet_summary.EXAMPLES))
        patch.setattr(preemption, "VICTIMS_SHOWN", shown)
        found = explanations(in_columns)
        with explained_by_records():
            assert found == explanations(in_records)


def explanations(cycle: DecidedCycle) -> list[object]:
    return [
        *(need_explanation_document(explain_need(cycle, place)) for place in range(len(cycle.needs))),
        *(machine_explanation_document(explain_machine(cycle, name)) for name in sorted(cycle.machines)),
        *(cycle.place_of(number) for number in range(len(cycle.needs_by_number))),
    ]


@QUICK
@given(situations())
def test_groups_tell_apart_every_machine_that_a_need_tells_apart(situation: Situation) -> None:
    cycle = cycle_of(situation)
    for place in range(len(cycle.needs)):
        checker = FitChecker(cycle, place)
        one_by_one = {checker.fit(cycle.group_of(name)) for name in cycle.machines}
        assert {checker.fit(group) for group in cycle.groups} == one_by_one


@settings(QUICK, max_examples=20)
@given(situations())
def test_without_an_edit_there_is_no_difference(situation: Situation) -> None:
    document = document_of(situation)
    edited = apply_edits(document, ())
    assert edited.document.situation == situation
    side = Side(document, decide_situation(situation))
    assert compare(side, side, edited.numbers).same


Edits = list[dict[str, object]]
_WHERE: tuple[dict[str, object], ...] = (
    {},
    {"zone": "za"},
    {"state": "Idle"},
    {"requirements": [{"key": "rack", "operator": "Exists"}]},
)
_EDITS: dict[str, Callable[[int], dict[str, object]]] = {
    "add": lambda n: {"edit": "add_machines", "count": n + 1, "like": "m00", "machine": {"zone": "zb"}},
    "remove": lambda n: {"edit": "remove_machines", "where": _WHERE[n], "count": 2},
    "price": lambda n: {"edit": "change_machines", "where": _WHERE[n], "multiply_price": n / 2},
    "need": lambda n: {"edit": "add_need", "need": {"cluster": "x", "total": {"cpu": str(n)}, "priority": n}},
    "scale": lambda n: {"edit": "change_needs", "where": {"cluster": "x"}, "scale": n / 3},
    "raise": lambda n: {"edit": "change_needs", "where": {}, "to": {"priority": 10**n}},
    "drop": lambda n: {"edit": "remove_needs", "where": {"needs": n}},
    "time": lambda n: {"edit": "pass_time", "seconds": n * 100},
}


@QUICK
@given(st.lists(situations(), min_size=2, max_size=3))
def test_deciding_again_and_again_gives_what_deciding_anew_gives(several: list[Situation]) -> None:
    again = Redecider()
    for situation in (*several, several[0]):
        decision = decide_situation(situation)
        assert write_decision(situation, again(situation)) == write_decision(situation, decision)


@QUICK
@given(situations(), st.lists(st.tuples(st.sampled_from(sorted(_EDITS)), st.integers(0, 3)), max_size=4))
def test_an_edited_document_is_a_document_and_follows_its_needs(
    situation: Situation, wanted: list[tuple[str, int]]
) -> None:
    document = document_of(situation)
    for name, size in wanted:
        try:
            edited = apply_edits(document, edits_of([_EDITS[name](size)]))
        except DocumentError:  # about nothing that is there
            continue
        assert read_situation(write_document(edited.document)).situation == edited.document.situation
        before = Side(document, decide_situation(situation))
        after = Side(edited.document, decide_situation(edited.document.situation))
        comparison = compare(before, after, edited.numbers)
        for change in comparison.needs:
            assert (change.before is None) == all(number >= len(situation.needs) for number in change.numbers)
            assert (change.after is None) == all(number not in edited.numbers for number in change.numbers)
