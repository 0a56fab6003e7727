"""A book with one machine per state, each with a past of its own."""

from collections.abc import Callable

import pytest

from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import Kind
from bigfleet.provider.kit.core.book import KINDS, Book
from bigfleet.provider.kit.core.changes import Operations
from bigfleet.provider.kit.core.values import Machine
from bigfleet.provider.kit.encoding import RecordCodec
from tests.support.builders import shape

HOSTLESS = (S.SPECULATIVE, S.CREATING)
BOUND = (S.CONFIGURING, S.CONFIGURED, S.DRAINING)

MakeBook = Callable[..., Book]


def machine(state: S, machine_id: str = "m") -> Machine:
    return Machine(
        id=machine_id,
        state=state,
        shape=shape(),
        host="" if state in HOSTLESS else "h",
        cluster="c" if state in BOUND else "",
        shard_metadata={"k": "v"} if state in BOUND else {},
        last_error="broke" if state is S.FAILED else "",
    )


@pytest.fixture
def book_with() -> MakeBook:
    """Make a book with one machine `m` in a state, after operations of these kinds."""

    def make(state: S, *past: Kind) -> Book:
        book = Book(RecordCodec("acme"), incarnation="store")
        numbers = [KINDS.index(kind) + 101 if kind in past else 0 for kind in KINDS]
        operations: Operations = (numbers[0], numbers[1], numbers[2], numbers[3])
        book.load(book.put(machine(state), shape(), operations))
        book.opened(1000)
        return book

    return make
