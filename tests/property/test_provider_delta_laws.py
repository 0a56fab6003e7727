"""Deltas and snapshots on random histories (`providers#revision`, `providers#kit`, `providers#change-log`)."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.aio.rng import RandomStream, SeededRng
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.kit.core.changes import DropMachine, FenceMark, PutMachine, StateChange
from bigfleet.provider.kit.core.state import ProviderState
from bigfleet.provider.kit.core.values import MachineRecord
from bigfleet.provider.kit.encoding import RecordCodec
from bigfleet.provider.kit.entries import EntryDecoder, SnapshotHeader, encode, encode_snapshot
from tests.support.builders import shape

CODEC = RecordCodec("acme")
FLEET = 8


def put(state: ProviderState, number: int, price: float) -> PutMachine:
    return state.put(MachineRecord(f"m-{number}", S.SPECULATIVE, shape(price=price)), shape(price=price))


def fresh() -> ProviderState:
    state = ProviderState(CODEC, "store")
    for number in range(FLEET):
        state.load(put(state, number, 0.0))
    state.opened(state.head)
    return state


def changed_since(state: ProviderState, cursor: bytes) -> list[str]:
    return sorted(state.table.id(row) for row in state.select((), cursor, 0).tolist())


def restarted(state: ProviderState) -> ProviderState:
    """Write everything down and read it back, as a start does."""
    decoder, again, head = EntryDecoder(), ProviderState(CODEC), 0
    for entry in encode_snapshot(SnapshotHeader(state.incarnation, state.head), state.everything()):
        for change in decoder.decode(entry):
            if isinstance(change, SnapshotHeader):
                again.incarnation, head = change.incarnation, change.head
            else:
                again.load(change)
    again.opened(head)
    return again


def history(stream: RandomStream, steps: int) -> None:
    """Change machines at random, restart now and then, and ask from every cursor ever given out."""
    state = fresh()
    changes: list[tuple[int, str]] = []  # revision, machine
    cursors = [state.revision()]
    floor = state.head
    for _ in range(steps):
        if stream.random() < 0.1:
            state = restarted(state)
            floor = state.head
        else:
            number = stream.randrange(FLEET)
            change = put(state, number, float(stream.randrange(1000)))
            state.apply([change])
            changes.append((change.revision, f"m-{number}"))
        cursors.append(state.revision())
    everything = sorted(f"m-{number}" for number in range(FLEET))
    for cursor in cursors:
        revision = int(cursor)
        expected = sorted({machine for at, machine in changes if at > revision})
        # A cursor from before the last restart yields everything: which changes it missed is no longer known.
        assert changed_since(state, cursor) == (expected if revision >= floor else everything)
    assert changed_since(state, state.revision()) == []


@pytest.mark.rule("providers#change-log")
def test_a_delta_is_exactly_what_changed_after_its_cursor_in_sixty_histories() -> None:
    for seed in range(60):
        history(SeededRng(seed).stream("history"), steps=40)


@pytest.mark.rule("providers#change-log")
@pytest.mark.long
def test_a_delta_is_exactly_what_changed_after_its_cursor_in_a_thousand_histories() -> None:
    for seed in range(1000):
        history(SeededRng(seed).child("long").stream("history"), steps=80)


def test_a_log_that_was_compacted_answers_as_before() -> None:
    state = fresh()
    cursors = []
    for step in range(6000):  # far beyond four times the fleet
        state.apply([put(state, step % FLEET if step < 5990 else 0, float(step))])
        cursors.append(state.revision())
    assert changed_since(state, cursors[5989]) == ["m-0"]
    assert changed_since(state, cursors[5985]) == ["m-0", "m-2", "m-3", "m-4", "m-5"]
    assert len(changed_since(state, cursors[0])) == FLEET


Step = tuple[str, int, int]
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.sampled_from(["put", "mark", "drop", "write"]), st.integers(0, 11), st.integers(0, 50)),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_snapshot_written_while_changes_go_on_becomes_the_same_book(steps: Sequence[Step]) -> None:
    """Each `write` takes one more change out of the snapshot under way; what follows its start is in the journal."""
    state = fresh()
    header = SnapshotHeader(state.incarnation, state.head)
    under_way: Iterator[StateChange] = state.everything()
    taken: list[StateChange] = []
    journal: list[StateChange] = []
    for kind, number, value in steps:
        if kind == "write":
            taken += [change for change in [next(under_way, None)] if change is not None]
            continue
        change: StateChange
        match kind:
            case "put":
                change = put(state, number, float(value))
            case "mark":
                change = FenceMark(f"s-{value % 3}", f"m-{number}", value, number)
            case _:
                change = DropMachine(f"m-{number}")
        state.apply([change])
        journal.append(change)
    taken += under_way

    again, decoder = ProviderState(CODEC), EntryDecoder()
    for entry in [*encode_snapshot(header, taken), *(encode([change]) for change in journal)]:
        for read in decoder.decode(entry):
            if isinstance(read, SnapshotHeader):
                again.incarnation = read.incarnation
            else:
                again.load(read)
    again.opened(header.head)
    assert again.head >= state.head or state.head == header.head
    assert {machine_id: again.entry(machine_id) for machine_id in again.table.ids()} == {
        machine_id: state.entry(machine_id) for machine_id in state.table.ids()
    }
    for shard in range(3):
        for number in range(12):
            pair = (f"s-{shard}", f"m-{number}")
            assert again.fence.mark(*pair, again.table.row(pair[1])) == state.fence.mark(
                *pair, state.table.row(pair[1])
            )
