"""What happens to a machine without a call (`providers#states`, `providers#reads`, `providers#revision`, `providers#kit`)."""

from collections.abc import Callable

import pytest

from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import BOUND_STATES, EDGES, REMOVED_LABEL, STATES, OperationKind
from bigfleet.provider.kit.core.changes import PutMachine
from bigfleet.provider.kit.core.state import MachineEntry, ProviderState
from bigfleet.provider.kit.core.transitions import (
    Lost,
    Priced,
    admit,
    fail,
    forget,
    lose,
    make_tombstone,
    may_make_tombstone,
    repair,
    reprice,
    succeed,
    update_offer,
)
from bigfleet.provider.kit.core.values import CreatedHost, DescribedMachine, MachineRecord, Timestamp
from tests.support.builders import shape

MakeBook = Callable[..., ProviderState]
NOW = Timestamp(1_900_000_000, "2030-03-17T17:46:40Z")


def entry_of(provider_state: ProviderState) -> MachineEntry:
    entry = provider_state.entry("m")
    assert entry is not None
    return entry


def after(provider_state: ProviderState, put: PutMachine | None) -> MachineRecord:
    assert put is not None
    provider_state.apply([put])
    return entry_of(provider_state).machine


@pytest.mark.parametrize("kind", list(OperationKind))
def test_an_operation_that_ends_well_reaches_its_target(state_with: MakeBook, kind: OperationKind) -> None:
    provider_state = state_with(EDGES[kind].during, kind)
    entry = entry_of(provider_state)
    machine = after(
        provider_state, succeed(provider_state, entry, kind, entry.operation(kind), CreatedHost("new"))
    )
    assert machine.state is EDGES[kind].target
    assert machine.last_error == ""
    assert machine.host == {OperationKind.CREATE: "new", OperationKind.DELETE: ""}.get(kind, "h")
    bound = machine.state is S.CONFIGURED
    assert (machine.cluster, dict(machine.shard_metadata)) == (("c", {"k": "v"}) if bound else ("", {}))


@pytest.mark.parametrize("kind", list(OperationKind))
def test_an_operation_that_ends_badly_keeps_host_cluster_and_map(
    state_with: MakeBook, kind: OperationKind
) -> None:
    provider_state = state_with(EDGES[kind].during, kind)
    entry = entry_of(provider_state)
    machine = after(provider_state, fail(provider_state, entry, kind, entry.operation(kind), "it\nbroke"))
    was = entry.machine
    assert (machine.state, machine.last_error) == (S.FAILED, "it broke")
    assert (machine.host, machine.cluster, machine.shard_metadata) == (
        was.host,
        was.cluster,
        was.shard_metadata,
    )


@pytest.mark.parametrize("kind", list(OperationKind))
def test_a_result_counts_only_for_the_operation_that_is_under_way(
    state_with: MakeBook, kind: OperationKind
) -> None:
    for state in STATES:
        provider_state = state_with(state, kind)
        entry = entry_of(provider_state)
        number = entry.operation(kind)
        wrong = number + 1 if state is EDGES[kind].during else number
        assert succeed(provider_state, entry, kind, wrong, CreatedHost("h")) is None
        assert fail(provider_state, entry, kind, wrong, "late") is None


@pytest.mark.parametrize("state", STATES)
def test_a_loss_fails_whatever_has_or_will_have_a_host(state_with: MakeBook, state: S) -> None:
    provider_state = state_with(state, *OperationKind)
    put = lose(provider_state, entry_of(provider_state), Lost("m", "spot: taken back"), NOW)
    if state in (S.SPECULATIVE, S.FAILED):
        assert put is None
    else:
        machine = after(provider_state, put)
        assert (machine.state, machine.last_error) == (S.FAILED, "spot: taken back")
        assert bool(machine.cluster) is (state in BOUND_STATES)


def test_a_loss_for_good_leaves_a_tombstone_with_its_time(state_with: MakeBook) -> None:
    provider_state = state_with(S.CONFIGURED)
    machine = after(
        provider_state, lose(provider_state, entry_of(provider_state), Lost("m", "scrapped", gone=True), NOW)
    )
    assert (machine.state, machine.last_error) == (S.FAILED, "removed: scrapped")
    assert machine.labels[REMOVED_LABEL] == NOW.text
    assert entry_of(provider_state).gone_at_s == NOW.seconds
    assert make_tombstone(provider_state, entry_of(provider_state), "again", NOW) is None


def test_a_tombstone_is_forgotten_after_its_retention(state_with: MakeBook) -> None:
    provider_state = state_with(S.IDLE)
    assert forget(entry_of(provider_state), NOW.seconds + 10**9, 86_400) is None
    after(provider_state, make_tombstone(provider_state, entry_of(provider_state), "gone", NOW))
    assert forget(entry_of(provider_state), NOW.seconds + 86_399, 86_400) is None
    drop = forget(entry_of(provider_state), NOW.seconds + 86_400, 86_400)
    assert drop is not None
    provider_state.apply([drop])
    assert provider_state.entry("m") is None


def test_only_a_settled_unbound_machine_may_be_buried_by_a_refresh() -> None:
    assert {state for state in STATES if may_make_tombstone(state)} == {S.SPECULATIVE, S.IDLE, S.FAILED}


def test_a_refresh_changes_price_risk_size_and_labels_only(state_with: MakeBook) -> None:
    provider_state = state_with(S.IDLE)
    described = shape(
        "other", zone="elsewhere", price=9.0, probability=0.5, resources={"cpu": "8"}, labels={"a": "b"}
    )
    machine = after(provider_state, update_offer(provider_state, entry_of(provider_state), described))
    shown = machine.shape
    assert (shown.instance_type, shown.zone) == ("m5", "z1")
    assert (shown.price_per_hour, shown.interruption_probability) == (9.0, 0.5)
    assert (dict(shown.resources), dict(shown.labels)) == ({"cpu": "8"}, {"a": "b"})
    assert (machine.state, machine.host) == (S.IDLE, "h")


def test_a_refresh_without_news_changes_nothing(state_with: MakeBook) -> None:
    provider_state = state_with(S.IDLE)
    assert update_offer(provider_state, entry_of(provider_state), shape()) is None
    assert (
        update_offer(provider_state, entry_of(provider_state), shape("other type", zone="other zone")) is None
    )


def test_what_a_host_says_of_its_size_outlives_refreshes_and_ends_with_the_host(state_with: MakeBook) -> None:
    provider_state = state_with(S.CREATING, OperationKind.CREATE)
    entry = entry_of(provider_state)
    host = CreatedHost("new", resources={"cpu": "5"}, allocatable={"cpu": "4500m"})
    after(
        provider_state,
        succeed(provider_state, entry, OperationKind.CREATE, entry.operation(OperationKind.CREATE), host),
    )
    machine = after(
        provider_state,
        update_offer(provider_state, entry_of(provider_state), shape(price=3.0, resources={"cpu": "6"})),
    )
    assert dict(machine.shape.resources) == {"cpu": "5"}
    assert dict(machine.shape.allocatable) == {"cpu": "4500m"}
    assert machine.shape.price_per_hour == 3.0
    deleting = MachineRecord("m", S.DELETING, machine.shape, "new")
    provider_state.apply(
        [
            provider_state.put(
                deleting, entry_of(provider_state).offer, (1, 0, 0, 0), starts=OperationKind.DELETE
            )
        ]
    )
    entry = entry_of(provider_state)
    machine = after(
        provider_state,
        succeed(provider_state, entry, OperationKind.DELETE, entry.operation(OperationKind.DELETE)),
    )
    assert dict(machine.shape.resources) == {"cpu": "6"}


def test_a_price_can_move_alone(state_with: MakeBook) -> None:
    provider_state = state_with(S.CONFIGURED)
    machine = after(
        provider_state, reprice(provider_state, entry_of(provider_state), Priced("m", price_per_hour=7.0))
    )
    assert (machine.shape.price_per_hour, machine.shape.interruption_probability) == (7.0, 0.0)
    assert machine.cluster == "c"
    assert reprice(provider_state, entry_of(provider_state), Priced("m", price_per_hour=7.0)) is None


def test_a_slot_begins_where_its_seed_says() -> None:
    from bigfleet.provider.kit.encoding import RecordCodec

    provider_state = ProviderState(RecordCodec("acme"), "store")
    assert admit(provider_state, DescribedMachine("s", shape())).state is S.SPECULATIVE
    assert admit(provider_state, DescribedMachine("i", shape(), "h")).state is S.IDLE
    configured = admit(provider_state, DescribedMachine("c", shape(), "h", S.CONFIGURED, "cluster"))
    assert configured.operations[1] == configured.revision  # a repeated Configure finds an operation


@pytest.mark.parametrize("state", [state for state in STATES if state is not S.FAILED])
def test_only_a_failed_machine_can_be_repaired(state_with: MakeBook, state: S) -> None:
    provider_state = state_with(state, *OperationKind)
    assert isinstance(repair(provider_state, entry_of(provider_state), S.SPECULATIVE), str)


def test_a_repair_clears_binding_and_error(state_with: MakeBook) -> None:
    provider_state = state_with(S.CONFIGURING, OperationKind.CONFIGURE)
    entry = entry_of(provider_state)
    after(
        provider_state,
        fail(
            provider_state,
            entry,
            OperationKind.CONFIGURE,
            entry.operation(OperationKind.CONFIGURE),
            "no node",
        ),
    )
    put = repair(provider_state, entry_of(provider_state), S.IDLE)
    assert isinstance(put, PutMachine)
    machine = after(provider_state, put)
    assert (machine.state, machine.host, machine.cluster, machine.last_error) == (S.IDLE, "h", "", "")
    assert dict(machine.shard_metadata) == {}


def test_a_repaired_tombstone_is_an_ordinary_machine_again(state_with: MakeBook) -> None:
    provider_state = state_with(S.IDLE)
    after(provider_state, make_tombstone(provider_state, entry_of(provider_state), "gone", NOW))
    put = repair(provider_state, entry_of(provider_state), S.IDLE)
    assert isinstance(put, PutMachine)
    assert REMOVED_LABEL not in after(provider_state, put).labels
    assert entry_of(provider_state).gone_at_s == 0


def test_a_machine_without_a_host_is_repaired_to_speculative_only(state_with: MakeBook) -> None:
    provider_state = state_with(S.CREATING, OperationKind.CREATE)
    entry = entry_of(provider_state)
    after(
        provider_state,
        fail(provider_state, entry, OperationKind.CREATE, entry.operation(OperationKind.CREATE), "none left"),
    )
    assert isinstance(repair(provider_state, entry_of(provider_state), S.IDLE), str)
    assert isinstance(repair(provider_state, entry_of(provider_state), S.CONFIGURED), str)
    put = repair(provider_state, entry_of(provider_state), S.SPECULATIVE)
    assert isinstance(put, PutMachine)
    assert after(provider_state, put).state is S.SPECULATIVE
