"""Machines by filter, order and page (`dashboard#own-routes`, `dashboard#insight-service`)."""

from typing import Any

import pytest
from hypothesis import given

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.machine import CapacityType
from bigfleet.model.machine import MachineState as S
from bigfleet.model.situation import Situation
from bigfleet.shard.core.read.machine_query import MachineQuery, MachineSort, find, state_counts
from tests.support.builders import assigned, machine, shape
from tests.support.shard_views import cycle_of
from tests.support.situations import situations

SPOT = CapacityType.SPOT
FLEET = (
    machine("a-1", S.IDLE, shape=shape("m5", zone="za", price=3.0), idle_since=50.0),
    machine("a-2", S.IDLE, shape=shape("m5", zone="zb", price=1.0), idle_since=20.0),
    machine("b-1", S.SPECULATIVE, shape=shape("g8", zone="za", price=2.0, capacity_type=SPOT)),
    machine("b-2", S.CONFIGURED, cluster="train", assigned=assigned(900), shape=shape("g8", zone="zb")),
    machine("b-3", S.CREATING, assigned=assigned(500, cluster="train"), shape=shape("g8", zone="za")),
    machine("c-1", S.CONFIGURED, cluster="web", assigned=assigned(10), shape=shape("m5", zone="za")),
)


def found(**query: Any) -> list[str]:  # Any: fields of a query
    fleet = query.pop("fleet", FLEET)
    return ids(cycle_of(Situation(0.0, fleet)).snapshot, MachineQuery(**query))


def ids(snapshot: InventorySnapshot, query: MachineQuery) -> list[str]:
    return [snapshot.machine_id(row) for row in find(snapshot, query).tolist()]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        pytest.param({}, ["a-1", "a-2", "b-1", "b-2", "b-3", "c-1"], id="all"),
        pytest.param({"states": ("Idle",)}, ["a-1", "a-2"], id="state"),
        pytest.param({"states": ("Idle", "Creating")}, ["a-1", "a-2", "b-3"], id="two states"),
        pytest.param({"instance_types": ("g8",)}, ["b-1", "b-2", "b-3"], id="type"),
        pytest.param({"zones": ("zb",)}, ["a-2", "b-2"], id="zone"),
        pytest.param({"capacity_types": ("Spot",)}, ["b-1"], id="capacity type"),
        pytest.param({"clusters": ("train",)}, ["b-2", "b-3"], id="cluster, with what is on order for it"),
        pytest.param({"clusters": ("",)}, ["a-1", "a-2", "b-1"], id="of nobody"),
        pytest.param({"clusters": ("", "web")}, ["a-1", "a-2", "b-1", "c-1"], id="of nobody or a cluster"),
        pytest.param({"clusters": ("unheard of",)}, [], id="unknown cluster"),
        pytest.param({"id_contains": "-1"}, ["a-1", "b-1", "c-1"], id="part of the id"),
        pytest.param(
            {"instance_types": ("g8",), "zones": ("za",), "states": ("Creating",)}, ["b-3"], id="all at once"
        ),
    ],
)
def test_filter(query: dict[str, object], wanted: list[str]) -> None:
    assert found(**query) == wanted


@pytest.mark.parametrize(
    ("order", "descending", "wanted"),
    [
        pytest.param(MachineSort.ID, True, ["c-1", "b-3", "b-2", "b-1", "a-2", "a-1"], id="id backwards"),
        pytest.param(
            MachineSort.PRICE, False, ["a-2", "b-2", "b-3", "c-1", "b-1", "a-1"], id="price, then id"
        ),
        pytest.param(
            MachineSort.PRICE, True, ["a-1", "b-1", "a-2", "b-2", "b-3", "c-1"], id="price backwards"
        ),
        pytest.param(
            MachineSort.STATE, False, ["b-1", "b-3", "a-1", "a-2", "b-2", "c-1"], id="state by its life"
        ),
        pytest.param(MachineSort.CLUSTER, True, ["c-1", "b-2", "a-1", "a-2", "b-1", "b-3"], id="cluster"),
        pytest.param(MachineSort.INSTANCE_TYPE, False, ["b-1", "b-2", "b-3", "a-1", "a-2", "c-1"], id="type"),
        pytest.param(MachineSort.ZONE, False, ["a-1", "b-1", "b-3", "c-1", "a-2", "b-2"], id="zone"),
        pytest.param(
            MachineSort.IDLE_SINCE, False, ["a-2", "a-1", "b-1", "b-2", "b-3", "c-1"], id="longest idle"
        ),
        pytest.param(
            MachineSort.IDLE_SINCE, True, ["a-1", "a-2", "b-1", "b-2", "b-3", "c-1"], id="shortest idle"
        ),
        pytest.param(MachineSort.PRIORITY, True, ["b-2", "b-3", "c-1", "a-1", "a-2", "b-1"], id="priority"),
    ],
)
def test_order(order: MachineSort, descending: bool, wanted: list[str]) -> None:
    assert found(order=order, descending=descending) == wanted


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"states": ("idle",)}, "states: found 'idle', allowed is one of Speculative"),
        ({"capacity_types": ("Spott",)}, "capacity_types: found 'Spott', allowed is one of Unspecified"),
    ],
)
def test_an_unknown_word_is_refused_with_those_that_are_known(query: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidFieldError, match=text):
        found(**query)


def test_states_are_counted_over_what_was_found() -> None:
    snapshot = cycle_of(Situation(0.0, FLEET)).snapshot
    assert state_counts(snapshot, find(snapshot, MachineQuery(zones=("za",)))) == {
        "Speculative": 1,
        "Creating": 1,
        "Idle": 1,
        "Configured": 1,
    }


def test_an_empty_fleet_answers_too() -> None:
    assert found(fleet=()) == []
    assert (
        found(
            fleet=(),
            states=("Idle",),
            clusters=("a",),
            zones=("z",),
            id_contains="x",
            order=MachineSort.PRICE,
        )
        == []
    )


@given(situations())
def test_every_machine_is_found_by_its_id_and_nothing_else_is(situation: Situation) -> None:
    snapshot = cycle_of(situation).snapshot
    for known in situation.machines:
        row = snapshot.row_of(known.id)
        assert row is not None
        assert snapshot.machine_id(row) == known.id
    for unknown in ("", "\x00", "zzzz", "m"):
        if unknown not in {known.id for known in situation.machines}:
            assert snapshot.row_of(unknown) is None


@given(situations())
def test_a_query_is_the_same_as_looking_at_each_record(situation: Situation) -> None:
    snapshot = cycle_of(situation).snapshot
    query = MachineQuery(states=("Idle", "Configured"), zones=("za", ""), clusters=("x", ""))
    plain = sorted(
        item.id
        for item in situation.machines
        if item.state in (S.IDLE, S.CONFIGURED)
        and item.shape.zone in ("za", "")
        and (item.cluster or item.assigned.cluster) in ("x", "")
    )
    assert ids(snapshot, query) == plain
