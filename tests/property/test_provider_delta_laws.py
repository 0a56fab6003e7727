"""Deltas and snapshots on random histories (providers 1.7, 4.1; acceptance 16)."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.aio.rng import RandomStream, SeededRng
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.kit.core.book import Book
from bigfleet.provider.kit.core.changes import Change, Drop, Mark, Put
from bigfleet.provider.kit.core.values import Machine
from bigfleet.provider.kit.encoding import RecordCodec
from bigfleet.provider.kit.entries import Decoder, Header, encode, encode_snapshot
from tests.support.builders import shape

CODEC = RecordCodec("acme")
FLEET = 8


def put(book: Book, number: int, price: float) -> Put:
    return book.put(Machine(f"m-{number}", S.SPECULATIVE, shape(price=price)), shape(price=price))


def fresh() -> Book:
    book = Book(CODEC, "store")
    for number in range(FLEET):
        book.load(put(book, number, 0.0))
    book.opened(book.head)
    return book


def changed_since(book: Book, cursor: bytes) -> list[str]:
    return sorted(book.table.id(row) for row in book.select((), cursor, 0).tolist())


def restarted(book: Book) -> Book:
    """Write everything down and read it back, as a start does."""
    decoder, again, head = Decoder(), Book(CODEC), 0
    for entry in encode_snapshot(Header(book.incarnation, book.head), book.everything()):
        for change in decoder.decode(entry):
            if isinstance(change, Header):
                again.incarnation, head = change.incarnation, change.head
            else:
                again.load(change)
    again.opened(head)
    return again


def history(stream: RandomStream, steps: int) -> None:
    """Change machines at random, restart now and then, and ask from every cursor ever given out."""
    book = fresh()
    changes: list[tuple[int, str]] = []  # revision, machine
    cursors = [book.revision()]
    floor = book.head
    for _ in range(steps):
        if stream.random() < 0.1:
            book = restarted(book)
            floor = book.head
        else:
            number = stream.randrange(FLEET)
            change = put(book, number, float(stream.randrange(1000)))
            book.apply([change])
            changes.append((change.revision, f"m-{number}"))
        cursors.append(book.revision())
    everything = sorted(f"m-{number}" for number in range(FLEET))
    for cursor in cursors:
        revision = int(cursor)
        expected = sorted({machine for at, machine in changes if at > revision})
        # A cursor from before the last restart yields everything: which changes it missed is no longer known.
        assert changed_since(book, cursor) == (expected if revision >= floor else everything)
    assert changed_since(book, book.revision()) == []


def test_a_delta_is_exactly_what_changed_after_its_cursor_in_sixty_histories() -> None:
    for seed in range(60):
        history(SeededRng(seed).stream("history"), steps=40)


@pytest.mark.long
def test_a_delta_is_exactly_what_changed_after_its_cursor_in_a_thousand_histories() -> None:
    for seed in range(1000):
        history(SeededRng(seed).child("long").stream("history"), steps=80)


def test_a_log_that_was_compacted_answers_as_before() -> None:
    book = fresh()
    cursors = []
    for step in range(6000):  # far beyond four times the fleet
        book.apply([put(book, step % FLEET if step < 5990 else 0, float(step))])
        cursors.append(book.revision())
    assert changed_since(book, cursors[5989]) == ["m-0"]
    assert changed_since(book, cursors[5985]) == ["m-0", "m-2", "m-3", "m-4", "m-5"]
    assert len(changed_since(book, cursors[0])) == FLEET


Step = tuple[str, int, int]
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.sampled_from(["put", "mark", "drop", "write"]), st.integers(0, 11), st.integers(0, 50)),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_snapshot_written_while_changes_go_on_becomes_the_same_book(steps: Sequence[Step]) -> None:
    """Each `write` takes one more change out of the snapshot under way; what follows its start is in the journal."""
    book = fresh()
    header = Header(book.incarnation, book.head)
    under_way: Iterator[Change] = book.everything()
    taken: list[Change] = []
    journal: list[Change] = []
    for kind, number, value in steps:
        if kind == "write":
            taken += [change for change in [next(under_way, None)] if change is not None]
            continue
        change: Change
        match kind:
            case "put":
                change = put(book, number, float(value))
            case "mark":
                change = Mark(f"s-{value % 3}", f"m-{number}", value, number)
            case _:
                change = Drop(f"m-{number}")
        book.apply([change])
        journal.append(change)
    taken += under_way

    again, decoder = Book(CODEC), Decoder()
    for entry in [*encode_snapshot(header, taken), *(encode([change]) for change in journal)]:
        for read in decoder.decode(entry):
            if isinstance(read, Header):
                again.incarnation = read.incarnation
            else:
                again.load(read)
    again.opened(header.head)
    assert again.head >= book.head or book.head == header.head
    assert {machine_id: again.entry(machine_id) for machine_id in again.table.ids()} == {
        machine_id: book.entry(machine_id) for machine_id in book.table.ids()
    }
    for shard in range(3):
        for number in range(12):
            pair = (f"s-{shard}", f"m-{number}")
            assert again.fence.mark(*pair, again.table.row(pair[1])) == book.fence.mark(
                *pair, book.table.row(pair[1])
            )
