"""What happens to a machine without a call (providers 1.2, 1.4, 1.7, 4.1)."""

from collections.abc import Callable

import pytest

from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import BOUND_STATES, EDGES, INTERRUPTED, REMOVED_LABEL, STATES, Kind
from bigfleet.provider.kit.core.book import Book, Entry
from bigfleet.provider.kit.core.changes import Put
from bigfleet.provider.kit.core.transitions import (
    Lost,
    Priced,
    admit,
    bury,
    fail,
    forget,
    interrupt,
    lose,
    may_bury,
    offer_anew,
    repair,
    reprice,
    succeed,
)
from bigfleet.provider.kit.core.values import Host, Machine, Moment, Slot
from tests.support.builders import shape

MakeBook = Callable[..., Book]
NOW = Moment(1_900_000_000, "2030-03-17T17:46:40Z")


def entry_of(book: Book) -> Entry:
    entry = book.entry("m")
    assert entry is not None
    return entry


def after(book: Book, put: Put | None) -> Machine:
    assert put is not None
    book.apply([put])
    return entry_of(book).machine


@pytest.mark.parametrize("kind", list(Kind))
def test_an_operation_that_ends_well_reaches_its_target(book_with: MakeBook, kind: Kind) -> None:
    book = book_with(EDGES[kind].during, kind)
    entry = entry_of(book)
    machine = after(book, succeed(book, entry, kind, entry.operation(kind), Host("new")))
    assert machine.state is EDGES[kind].target
    assert machine.last_error == ""
    assert machine.host == {Kind.CREATE: "new", Kind.DELETE: ""}.get(kind, "h")
    bound = machine.state is S.CONFIGURED
    assert (machine.cluster, dict(machine.shard_metadata)) == (("c", {"k": "v"}) if bound else ("", {}))


@pytest.mark.parametrize("kind", list(Kind))
def test_an_operation_that_ends_badly_keeps_host_cluster_and_map(book_with: MakeBook, kind: Kind) -> None:
    book = book_with(EDGES[kind].during, kind)
    entry = entry_of(book)
    machine = after(book, fail(book, entry, kind, entry.operation(kind), "it\nbroke"))
    was = entry.machine
    assert (machine.state, machine.last_error) == (S.FAILED, "it broke")
    assert (machine.host, machine.cluster, machine.shard_metadata) == (
        was.host,
        was.cluster,
        was.shard_metadata,
    )


@pytest.mark.parametrize("kind", list(Kind))
def test_a_result_counts_only_for_the_operation_that_is_under_way(book_with: MakeBook, kind: Kind) -> None:
    for state in STATES:
        book = book_with(state, kind)
        entry = entry_of(book)
        number = entry.operation(kind)
        wrong = number + 1 if state is EDGES[kind].during else number
        assert succeed(book, entry, kind, wrong, Host("h")) is None
        assert fail(book, entry, kind, wrong, "late") is None


@pytest.mark.parametrize("state", STATES)
def test_a_restart_fails_what_was_under_way_and_nothing_else(book_with: MakeBook, state: S) -> None:
    book = book_with(state, *Kind)
    put = interrupt(book, entry_of(book))
    if state in {edge.during for edge in EDGES.values()}:
        assert after(book, put).last_error == INTERRUPTED
    else:
        assert put is None


@pytest.mark.parametrize("state", STATES)
def test_a_loss_fails_whatever_has_or_will_have_a_host(book_with: MakeBook, state: S) -> None:
    book = book_with(state, *Kind)
    put = lose(book, entry_of(book), Lost("m", "spot: taken back"), NOW)
    if state in (S.SPECULATIVE, S.FAILED):
        assert put is None
    else:
        machine = after(book, put)
        assert (machine.state, machine.last_error) == (S.FAILED, "spot: taken back")
        assert bool(machine.cluster) is (state in BOUND_STATES)


def test_a_loss_for_good_leaves_a_tombstone_with_its_time(book_with: MakeBook) -> None:
    book = book_with(S.CONFIGURED)
    machine = after(book, lose(book, entry_of(book), Lost("m", "scrapped", gone=True), NOW))
    assert (machine.state, machine.last_error) == (S.FAILED, "removed: scrapped")
    assert machine.labels[REMOVED_LABEL] == NOW.text
    assert entry_of(book).gone_at_s == NOW.seconds
    assert bury(book, entry_of(book), "again", NOW) is None


def test_a_tombstone_is_forgotten_after_its_retention(book_with: MakeBook) -> None:
    book = book_with(S.IDLE)
    assert forget(entry_of(book), NOW.seconds + 10**9, 86_400) is None
    after(book, bury(book, entry_of(book), "gone", NOW))
    assert forget(entry_of(book), NOW.seconds + 86_399, 86_400) is None
    drop = forget(entry_of(book), NOW.seconds + 86_400, 86_400)
    assert drop is not None
    book.apply([drop])
    assert book.entry("m") is None


def test_only_a_settled_unbound_machine_may_be_buried_by_a_refresh() -> None:
    assert {state for state in STATES if may_bury(state)} == {S.SPECULATIVE, S.IDLE, S.FAILED}


def test_a_refresh_changes_price_risk_size_and_labels_only(book_with: MakeBook) -> None:
    book = book_with(S.IDLE)
    described = shape(
        "other", zone="elsewhere", price=9.0, probability=0.5, resources={"cpu": "8"}, labels={"a": "b"}
    )
    machine = after(book, offer_anew(book, entry_of(book), described))
    shown = machine.shape
    assert (shown.instance_type, shown.zone) == ("m5", "z1")
    assert (shown.price_per_hour, shown.interruption_probability) == (9.0, 0.5)
    assert (dict(shown.resources), dict(shown.labels)) == ({"cpu": "8"}, {"a": "b"})
    assert (machine.state, machine.host) == (S.IDLE, "h")


def test_a_refresh_without_news_changes_nothing(book_with: MakeBook) -> None:
    book = book_with(S.IDLE)
    assert offer_anew(book, entry_of(book), shape()) is None
    assert offer_anew(book, entry_of(book), shape("other type", zone="other zone")) is None


def test_what_a_host_says_of_its_size_outlives_refreshes_and_ends_with_the_host(book_with: MakeBook) -> None:
    book = book_with(S.CREATING, Kind.CREATE)
    entry = entry_of(book)
    host = Host("new", resources={"cpu": "5"}, allocatable={"cpu": "4500m"})
    after(book, succeed(book, entry, Kind.CREATE, entry.operation(Kind.CREATE), host))
    machine = after(book, offer_anew(book, entry_of(book), shape(price=3.0, resources={"cpu": "6"})))
    assert dict(machine.shape.resources) == {"cpu": "5"}
    assert dict(machine.shape.allocatable) == {"cpu": "4500m"}
    assert machine.shape.price_per_hour == 3.0
    deleting = Machine("m", S.DELETING, machine.shape, "new")
    book.apply([book.put(deleting, entry_of(book).offer, (1, 0, 0, 0), starts=Kind.DELETE)])
    entry = entry_of(book)
    machine = after(book, succeed(book, entry, Kind.DELETE, entry.operation(Kind.DELETE)))
    assert dict(machine.shape.resources) == {"cpu": "6"}


def test_a_price_can_move_alone(book_with: MakeBook) -> None:
    book = book_with(S.CONFIGURED)
    machine = after(book, reprice(book, entry_of(book), Priced("m", price_per_hour=7.0)))
    assert (machine.shape.price_per_hour, machine.shape.interruption_probability) == (7.0, 0.0)
    assert machine.cluster == "c"
    assert reprice(book, entry_of(book), Priced("m", price_per_hour=7.0)) is None


def test_a_slot_begins_where_its_seed_says() -> None:
    from bigfleet.provider.kit.encoding import RecordCodec

    book = Book(RecordCodec("acme"), "store")
    assert admit(book, Slot("s", shape())).state is S.SPECULATIVE
    assert admit(book, Slot("i", shape(), "h")).state is S.IDLE
    configured = admit(book, Slot("c", shape(), "h", S.CONFIGURED, "cluster"))
    assert configured.operations[1] == configured.revision  # a repeated Configure finds an operation


@pytest.mark.parametrize("state", [state for state in STATES if state is not S.FAILED])
def test_only_a_failed_machine_can_be_repaired(book_with: MakeBook, state: S) -> None:
    book = book_with(state, *Kind)
    assert isinstance(repair(book, entry_of(book), S.SPECULATIVE), str)


def test_a_repair_clears_binding_and_error(book_with: MakeBook) -> None:
    book = book_with(S.CONFIGURING, Kind.CONFIGURE)
    entry = entry_of(book)
    after(book, fail(book, entry, Kind.CONFIGURE, entry.operation(Kind.CONFIGURE), "no node"))
    put = repair(book, entry_of(book), S.IDLE)
    assert isinstance(put, Put)
    machine = after(book, put)
    assert (machine.state, machine.host, machine.cluster, machine.last_error) == (S.IDLE, "h", "", "")
    assert dict(machine.shard_metadata) == {}


def test_a_repaired_tombstone_is_an_ordinary_machine_again(book_with: MakeBook) -> None:
    book = book_with(S.IDLE)
    after(book, bury(book, entry_of(book), "gone", NOW))
    put = repair(book, entry_of(book), S.IDLE)
    assert isinstance(put, Put)
    assert REMOVED_LABEL not in after(book, put).labels
    assert entry_of(book).gone_at_s == 0


def test_a_machine_without_a_host_is_repaired_to_speculative_only(book_with: MakeBook) -> None:
    book = book_with(S.CREATING, Kind.CREATE)
    entry = entry_of(book)
    after(book, fail(book, entry, Kind.CREATE, entry.operation(Kind.CREATE), "none left"))
    assert isinstance(repair(book, entry_of(book), S.IDLE), str)
    assert isinstance(repair(book, entry_of(book), S.CONFIGURED), str)
    put = repair(book, entry_of(book), S.SPECULATIVE)
    assert isinstance(put, Put)
    assert after(book, put).state is S.SPECULATIVE
