"""The order of checks and the idempotency table, row by row (providers 1.3, 1.5; acceptance 8 and 9)."""

from collections.abc import Callable
from itertools import chain, combinations

import pytest

from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import (
    EDGES,
    MAX_BLOB_BYTES,
    MAX_GRACE_S,
    MAX_METADATA_BYTES,
    STATES,
    Kind,
)
from bigfleet.provider.kit.core.book import Book
from bigfleet.provider.kit.core.calls import MutatingCall, Refusal, Rules, decide
from bigfleet.provider.kit.core.changes import Mark, Put
from bigfleet.provider.kit.core.fence import NO_TOKEN, Token
from bigfleet.provider.kit.core.transitions import succeed
from bigfleet.provider.kit.core.values import Host

MakeBook = Callable[..., Book]
FRESH = Token("shard", 5, 5)
STALE = Token("shard", 5, 4)
SEEN = Token("shard", 5, 4)


def call(kind: Kind, machine_id: str = "m", token: Token = FRESH, **given: object) -> MutatingCall:
    fields: dict[str, object] = {"cluster": "c2" if kind is Kind.CONFIGURE else "", **given}
    return MutatingCall(kind, machine_id, token, **fields)  # type: ignore[arg-type]  # fields by name, one test each


# In the order of providers 1.3; the argument checks of our choice come between the second and the third.
FAULTS = ("empty id", "not offered", "bad argument", "stale token", "unknown machine", "out of position")
REFUSALS = {
    "empty id": Refusal.BAD_ARGUMENT,
    "not offered": Refusal.NOT_OFFERED,
    "bad argument": Refusal.BAD_ARGUMENT,
    "stale token": Refusal.FENCED,
    "unknown machine": Refusal.UNKNOWN,
    "out of position": Refusal.OUT_OF_POSITION,
}
BEFORE_THE_FENCE = ("empty id", "not offered", "bad argument", "stale token")


def subsets() -> list[tuple[Kind, tuple[str, ...]]]:
    """Return every kind with every set of faults that one call can have at once."""
    every = chain.from_iterable(combinations(FAULTS, size) for size in range(len(FAULTS) + 1))
    # One id cannot be empty and unknown, and a machine that nobody knows is in no position.
    apart = {"empty id", "unknown machine", "out of position"}
    possible = [faults for faults in every if len(apart & set(faults)) <= 1]
    return [
        (kind, faults)
        for faults in possible
        for kind in Kind
        if kind is Kind.DELETE or "not offered" not in faults
    ]


@pytest.mark.parametrize(("kind", "faults"), subsets(), ids=str)
def test_the_first_fault_in_order_is_the_one_told(
    book_with: MakeBook, kind: Kind, faults: tuple[str, ...]
) -> None:
    book = book_with(S.FAILED if "out of position" in faults else EDGES[kind].source)
    machine_id = "" if "empty id" in faults else "ghost" if "unknown machine" in faults else "m"
    book.load(Mark("shard", machine_id, SEEN.epoch, SEEN.sequence))
    tried = call(
        kind,
        machine_id,
        STALE if "stale token" in faults else FRESH,
        grace_s=-1 if "bad argument" in faults else 0,
    )
    verdict = decide(book, tried, Rules(delete_offered="not offered" not in faults))

    assert verdict.refusal is (REFUSALS[faults[0]] if faults else None)
    assert verdict.begins is (not faults)
    marks = [change for change in verdict.changes if isinstance(change, Mark)]
    fence_reached = not any(fault in BEFORE_THE_FENCE for fault in faults)
    assert marks == ([Mark("shard", machine_id, 5, 5)] if fence_reached else [])
    assert [change for change in verdict.changes if isinstance(change, Put)] == list(
        verdict.changes[1:] if not faults else []
    )


# (call, state, operations on record) -> new operation, the recorded one, or rejected: providers 1.5.
NEW, RECORDED, REJECTED = "new", "recorded", "rejected"
ROWS = [
    (Kind.CREATE, S.SPECULATIVE, (), NEW),
    (Kind.CREATE, S.SPECULATIVE, (Kind.CREATE, Kind.DELETE), NEW),
    (Kind.CREATE, S.CREATING, (Kind.CREATE,), RECORDED),
    (Kind.CREATE, S.IDLE, (Kind.CREATE,), RECORDED),
    (Kind.CREATE, S.IDLE, (Kind.CREATE, Kind.CONFIGURE, Kind.DRAIN), RECORDED),
    (Kind.CREATE, S.IDLE, (), REJECTED),
    (Kind.CREATE, S.IDLE, (Kind.CONFIGURE, Kind.DRAIN), REJECTED),
    *((Kind.CREATE, state, (Kind.CREATE,), REJECTED) for state in STATES if state not in (S.SPECULATIVE, S.CREATING, S.IDLE)),
    (Kind.CONFIGURE, S.IDLE, (), NEW),
    (Kind.CONFIGURE, S.IDLE, (Kind.CONFIGURE, Kind.DRAIN), NEW),
    (Kind.CONFIGURE, S.CONFIGURING, (Kind.CONFIGURE,), RECORDED),
    (Kind.CONFIGURE, S.CONFIGURED, (Kind.CONFIGURE,), RECORDED),
    *((Kind.CONFIGURE, state, (Kind.CONFIGURE,), REJECTED) for state in STATES if state not in (S.IDLE, S.CONFIGURING, S.CONFIGURED)),
    (Kind.DRAIN, S.CONFIGURED, (), NEW),
    (Kind.DRAIN, S.CONFIGURED, (Kind.DRAIN,), NEW),
    (Kind.DRAIN, S.DRAINING, (Kind.DRAIN,), RECORDED),
    (Kind.DRAIN, S.IDLE, (Kind.DRAIN,), RECORDED),
    (Kind.DRAIN, S.IDLE, (), REJECTED),
    (Kind.DRAIN, S.IDLE, (Kind.CREATE,), REJECTED),
    *((Kind.DRAIN, state, (Kind.DRAIN,), REJECTED) for state in STATES if state not in (S.CONFIGURED, S.DRAINING, S.IDLE)),
    (Kind.DELETE, S.IDLE, (), NEW),
    (Kind.DELETE, S.IDLE, (Kind.DELETE,), NEW),
    (Kind.DELETE, S.DELETING, (Kind.DELETE,), RECORDED),
    (Kind.DELETE, S.SPECULATIVE, (Kind.DELETE,), RECORDED),
    (Kind.DELETE, S.SPECULATIVE, (), REJECTED),
    (Kind.DELETE, S.SPECULATIVE, (Kind.CREATE,), REJECTED),
    *((Kind.DELETE, state, (Kind.DELETE,), REJECTED) for state in STATES if state not in (S.IDLE, S.DELETING, S.SPECULATIVE)),
]  # fmt: skip


@pytest.mark.parametrize("token", [NO_TOKEN, FRESH], ids=["without a token", "with a token"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_row_of_the_idempotency_table(
    book_with: MakeBook, row: tuple[Kind, S, tuple[Kind, ...], str], token: Token
) -> None:
    kind, state, past, outcome = row
    book = book_with(state, *past)
    before = book.entry("m")
    assert before is not None
    verdict = decide(book, call(kind, token=token), Rules())
    if outcome == REJECTED:
        assert verdict.refusal is Refusal.OUT_OF_POSITION
        assert verdict.operation == 0
    else:
        assert verdict.refusal is None
        assert verdict.begins is (outcome == NEW)
        assert (verdict.operation == before.operation(kind)) is (outcome == RECORDED)
        assert verdict.operation > (1000 if outcome == NEW else 0)
    assert any(isinstance(change, Put) for change in verdict.changes) is (outcome == NEW)


def test_a_repeat_is_answered_whatever_its_arguments(book_with: MakeBook) -> None:
    book = book_with(S.CONFIGURED, Kind.CONFIGURE)
    verdict = decide(book, call(Kind.CONFIGURE, cluster="another", shard_metadata={"x": "y"}), Rules())
    assert (verdict.refusal, verdict.begins) == (None, False)
    book.apply(verdict.changes)
    entry = book.entry("m")
    assert entry is not None
    assert entry.machine.cluster == "c"


def test_an_accepted_call_is_in_its_transitional_state_at_once(book_with: MakeBook) -> None:
    for kind, edge in EDGES.items():
        book = book_with(edge.source)
        book.apply(decide(book, call(kind, shard_metadata={"a": "b"}), Rules()).changes)
        entry = book.entry("m")
        assert entry is not None
        assert entry.machine.state is edge.during
        if kind is Kind.CONFIGURE:  # visible from the moment the state is entered
            assert (entry.machine.cluster, dict(entry.machine.shard_metadata)) == ("c2", {"a": "b"})


def test_the_callers_map_is_copied_and_never_shared(book_with: MakeBook) -> None:
    book, sent = book_with(S.IDLE), {"a": "b"}
    book.apply(decide(book, call(Kind.CONFIGURE, shard_metadata=sent), Rules()).changes)
    sent["a"] = "changed"
    entry = book.entry("m")
    assert entry is not None
    assert dict(entry.machine.shard_metadata) == {"a": "b"}


def test_a_call_out_of_position_moves_the_mark_and_nothing_else(book_with: MakeBook) -> None:
    book = book_with(S.SPECULATIVE)
    head = book.head
    book.apply(decide(book, call(Kind.DRAIN), Rules()).changes)
    assert book.head == head
    assert decide(book, call(Kind.CREATE), Rules()).refusal is Refusal.FENCED
    assert decide(book, call(Kind.CREATE, token=Token("shard", 5, 6)), Rules()).refusal is None


@pytest.mark.parametrize(
    ("kind", "given", "named"),
    [
        (Kind.DRAIN, {"grace_s": -5}, "grace_period_seconds"),
        (Kind.DRAIN, {"grace_s": MAX_GRACE_S + 1}, "grace_period_seconds"),
        (Kind.CREATE, {"token": Token("shard", -1, 1)}, "shard_epoch"),
        (Kind.CREATE, {"token": Token("shard", 1, -1)}, "sequence_number"),
        (Kind.CREATE, {"token": Token("", 1, 0)}, "shard_id"),
        (Kind.CREATE, {"token": Token("s" * 1025, 1, 1)}, "shard_id"),
        (Kind.CREATE, {"machine_id": "é" * 600}, "machine_id"),
        (Kind.CONFIGURE, {"cluster": ""}, "cluster_id"),
        (Kind.CONFIGURE, {"blob_bytes": MAX_BLOB_BYTES + 1}, "bootstrap_blob"),
        (Kind.CONFIGURE, {"shard_metadata": {"k": "v" * MAX_METADATA_BYTES}}, "shard_metadata"),
    ],
)
def test_a_bad_argument_is_named_and_leaves_no_mark(
    book_with: MakeBook, kind: Kind, given: dict[str, object], named: str
) -> None:
    book = book_with(EDGES[kind].source)
    verdict = decide(book, call(kind, **given), Rules())  # type: ignore[arg-type]  # fields by name
    assert verdict.refusal is Refusal.BAD_ARGUMENT
    assert verdict.detail.startswith(f"{named}: found ")
    assert verdict.changes == ()


def test_an_empty_token_passes_unless_fencing_is_required(book_with: MakeBook) -> None:
    book = book_with(S.SPECULATIVE)
    book.load(Mark("shard", "m", 9, 9))
    passed = decide(book, call(Kind.CREATE, token=NO_TOKEN), Rules())
    assert [type(change) for change in passed.changes] == [Put]
    refused = decide(book, call(Kind.CREATE, token=NO_TOKEN), Rules(require_fencing=True))
    assert refused.refusal is Refusal.BAD_ARGUMENT


def test_five_operations_have_five_ids_and_a_repeat_returns_the_last(book_with: MakeBook) -> None:
    book = book_with(S.SPECULATIVE)
    ids = []
    for kind in (Kind.CREATE, Kind.CONFIGURE, Kind.DRAIN, Kind.CONFIGURE, Kind.DRAIN):
        verdict = decide(book, call(kind, token=NO_TOKEN), Rules())
        book.apply(verdict.changes)
        ids.append(book.operation_id(verdict.operation))
        entry = book.entry("m")
        assert entry is not None
        put = succeed(book, entry, kind, verdict.operation, Host("h"))
        assert put is not None
        book.apply([put])
    assert len(set(ids)) == 5
    repeat = decide(book, call(Kind.DRAIN, token=NO_TOKEN), Rules())
    assert (repeat.begins, book.operation_id(repeat.operation)) == (False, ids[-1])
