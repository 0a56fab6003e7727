"""The order of checks and the idempotency table, row by row (`providers#check-order`, `providers#idempotency-table`)."""

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
    OperationKind,
)
from bigfleet.provider.kit.core.calls import CallRefusal, CallRules, MutatingCall, decide
from bigfleet.provider.kit.core.changes import FenceMark, PutMachine
from bigfleet.provider.kit.core.fence import NO_TOKEN, FencingToken
from bigfleet.provider.kit.core.state import ProviderState
from bigfleet.provider.kit.core.transitions import succeed
from bigfleet.provider.kit.core.values import CreatedHost

MakeBook = Callable[..., ProviderState]
FRESH = FencingToken("shard", 5, 5)
STALE = FencingToken("shard", 5, 4)
SEEN = FencingToken("shard", 5, 4)


def call(
    kind: OperationKind, machine_id: str = "m", token: FencingToken = FRESH, **given: object
) -> MutatingCall:
    fields: dict[str, object] = {"cluster": "c2" if kind is OperationKind.CONFIGURE else "", **given}
    return MutatingCall(kind, machine_id, token, **fields)  # type: ignore[arg-type]  # fields by name, one test each


# In the order of `providers#check-order`; the argument checks of our choice come between the second and the third.
FAULTS = ("empty id", "not offered", "bad argument", "stale token", "unknown machine", "out of position")
REFUSALS = {
    "empty id": CallRefusal.BAD_ARGUMENT,
    "not offered": CallRefusal.NOT_OFFERED,
    "bad argument": CallRefusal.BAD_ARGUMENT,
    "stale token": CallRefusal.FENCED,
    "unknown machine": CallRefusal.UNKNOWN,
    "out of position": CallRefusal.OUT_OF_POSITION,
}
BEFORE_THE_FENCE = ("empty id", "not offered", "bad argument", "stale token")


def subsets() -> list[tuple[OperationKind, tuple[str, ...]]]:
    """Return every kind with every set of faults that one call can have at once."""
    every = chain.from_iterable(combinations(FAULTS, size) for size in range(len(FAULTS) + 1))
    # One id cannot be empty and unknown, and an unknown machine has no state.
    apart = {"empty id", "unknown machine", "out of position"}
    possible = [faults for faults in every if len(apart & set(faults)) <= 1]
    return [
        (kind, faults)
        for faults in possible
        for kind in OperationKind
        if kind is OperationKind.DELETE or "not offered" not in faults
    ]


@pytest.mark.rule("providers#check-order")
@pytest.mark.parametrize(("kind", "faults"), subsets(), ids=str)
def test_the_first_fault_in_order_is_the_one_reported(
    state_with: MakeBook, kind: OperationKind, faults: tuple[str, ...]
) -> None:
    provider_state = state_with(S.FAILED if "out of position" in faults else EDGES[kind].source)
    machine_id = "" if "empty id" in faults else "ghost" if "unknown machine" in faults else "m"
    provider_state.load(FenceMark("shard", machine_id, SEEN.epoch, SEEN.sequence))
    tried = call(
        kind,
        machine_id,
        STALE if "stale token" in faults else FRESH,
        grace_s=-1 if "bad argument" in faults else 0,
    )
    verdict = decide(provider_state, tried, CallRules(delete_offered="not offered" not in faults))

    assert verdict.refusal is (REFUSALS[faults[0]] if faults else None)
    assert verdict.begins is (not faults)
    marks = [change for change in verdict.changes if isinstance(change, FenceMark)]
    fence_reached = not any(fault in BEFORE_THE_FENCE for fault in faults)
    assert marks == ([FenceMark("shard", machine_id, 5, 5)] if fence_reached else [])
    assert [change for change in verdict.changes if isinstance(change, PutMachine)] == list(
        verdict.changes[1:] if not faults else []
    )


# (call, state, operations on record) -> new operation, the recorded one, or rejected: `providers#idempotency-table`.
NEW, RECORDED, REJECTED = "new", "recorded", "rejected"
ROWS = [
    (OperationKind.CREATE, S.SPECULATIVE, (), NEW),
    (OperationKind.CREATE, S.SPECULATIVE, (OperationKind.CREATE, OperationKind.DELETE), NEW),
    (OperationKind.CREATE, S.CREATING, (OperationKind.CREATE,), RECORDED),
    (OperationKind.CREATE, S.IDLE, (OperationKind.CREATE,), RECORDED),
    (OperationKind.CREATE, S.IDLE, (OperationKind.CREATE, OperationKind.CONFIGURE, OperationKind.DRAIN), RECORDED),
    (OperationKind.CREATE, S.IDLE, (), REJECTED),
    (OperationKind.CREATE, S.IDLE, (OperationKind.CONFIGURE, OperationKind.DRAIN), REJECTED),
    *((OperationKind.CREATE, state, (OperationKind.CREATE,), REJECTED) for state in STATES if state not in (S.SPECULATIVE, S.CREATING, S.IDLE)),
    (OperationKind.CONFIGURE, S.IDLE, (), NEW),
    (OperationKind.CONFIGURE, S.IDLE, (OperationKind.CONFIGURE, OperationKind.DRAIN), NEW),
    (OperationKind.CONFIGURE, S.CONFIGURING, (OperationKind.CONFIGURE,), RECORDED),
    (OperationKind.CONFIGURE, S.CONFIGURED, (OperationKind.CONFIGURE,), RECORDED),
    *((OperationKind.CONFIGURE, state, (OperationKind.CONFIGURE,), REJECTED) for state in STATES if state not in (S.IDLE, S.CONFIGURING, S.CONFIGURED)),
    (OperationKind.DRAIN, S.CONFIGURED, (), NEW),
    (OperationKind.DRAIN, S.CONFIGURED, (OperationKind.DRAIN,), NEW),
    (OperationKind.DRAIN, S.DRAINING, (OperationKind.DRAIN,), RECORDED),
    (OperationKind.DRAIN, S.IDLE, (OperationKind.DRAIN,), RECORDED),
    (OperationKind.DRAIN, S.IDLE, (), REJECTED),
    (OperationKind.DRAIN, S.IDLE, (OperationKind.CREATE,), REJECTED),
    *((OperationKind.DRAIN, state, (OperationKind.DRAIN,), REJECTED) for state in STATES if state not in (S.CONFIGURED, S.DRAINING, S.IDLE)),
    (OperationKind.DELETE, S.IDLE, (), NEW),
    (OperationKind.DELETE, S.IDLE, (OperationKind.DELETE,), NEW),
    (OperationKind.DELETE, S.DELETING, (OperationKind.DELETE,), RECORDED),
    (OperationKind.DELETE, S.SPECULATIVE, (OperationKind.DELETE,), RECORDED),
    (OperationKind.DELETE, S.SPECULATIVE, (), REJECTED),
    (OperationKind.DELETE, S.SPECULATIVE, (OperationKind.CREATE,), REJECTED),
    *((OperationKind.DELETE, state, (OperationKind.DELETE,), REJECTED) for state in STATES if state not in (S.IDLE, S.DELETING, S.SPECULATIVE)),
]  # fmt: skip


@pytest.mark.rule("providers#idempotency-table")
@pytest.mark.parametrize("token", [NO_TOKEN, FRESH], ids=["without a token", "with a token"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_row_of_the_idempotency_table(
    state_with: MakeBook, row: tuple[OperationKind, S, tuple[OperationKind, ...], str], token: FencingToken
) -> None:
    kind, state, past, outcome = row
    provider_state = state_with(state, *past)
    before = provider_state.entry("m")
    assert before is not None
    verdict = decide(provider_state, call(kind, token=token), CallRules())
    if outcome == REJECTED:
        assert verdict.refusal is CallRefusal.OUT_OF_POSITION
        assert verdict.operation == 0
    else:
        assert verdict.refusal is None
        assert verdict.begins is (outcome == NEW)
        assert (verdict.operation == before.operation(kind)) is (outcome == RECORDED)
        assert verdict.operation > (1000 if outcome == NEW else 0)
    assert any(isinstance(change, PutMachine) for change in verdict.changes) is (outcome == NEW)


def test_a_repeat_is_answered_whatever_its_arguments(state_with: MakeBook) -> None:
    provider_state = state_with(S.CONFIGURED, OperationKind.CONFIGURE)
    verdict = decide(
        provider_state,
        call(OperationKind.CONFIGURE, cluster="another", shard_metadata={"x": "y"}),
        CallRules(),
    )
    assert (verdict.refusal, verdict.begins) == (None, False)
    provider_state.apply(verdict.changes)
    entry = provider_state.entry("m")
    assert entry is not None
    assert entry.machine.cluster == "c"


def test_an_accepted_call_is_in_its_transitional_state_at_once(state_with: MakeBook) -> None:
    for kind, edge in EDGES.items():
        provider_state = state_with(edge.source)
        provider_state.apply(
            decide(provider_state, call(kind, shard_metadata={"a": "b"}), CallRules()).changes
        )
        entry = provider_state.entry("m")
        assert entry is not None
        assert entry.machine.state is edge.during
        if kind is OperationKind.CONFIGURE:  # visible from the moment the state is entered
            assert (entry.machine.cluster, dict(entry.machine.shard_metadata)) == ("c2", {"a": "b"})


def test_the_callers_map_is_copied_and_never_shared(state_with: MakeBook) -> None:
    provider_state, sent = state_with(S.IDLE), {"a": "b"}
    provider_state.apply(
        decide(provider_state, call(OperationKind.CONFIGURE, shard_metadata=sent), CallRules()).changes
    )
    sent["a"] = "changed"
    entry = provider_state.entry("m")
    assert entry is not None
    assert dict(entry.machine.shard_metadata) == {"a": "b"}


def test_a_call_out_of_position_moves_the_mark_and_nothing_else(state_with: MakeBook) -> None:
    provider_state = state_with(S.SPECULATIVE)
    head = provider_state.head
    provider_state.apply(decide(provider_state, call(OperationKind.DRAIN), CallRules()).changes)
    assert provider_state.head == head
    assert decide(provider_state, call(OperationKind.CREATE), CallRules()).refusal is CallRefusal.FENCED
    assert (
        decide(
            provider_state, call(OperationKind.CREATE, token=FencingToken("shard", 5, 6)), CallRules()
        ).refusal
        is None
    )


@pytest.mark.parametrize(
    ("kind", "given", "named"),
    [
        (OperationKind.DRAIN, {"grace_s": -5}, "grace_period_seconds"),
        (OperationKind.DRAIN, {"grace_s": MAX_GRACE_S + 1}, "grace_period_seconds"),
        (OperationKind.CREATE, {"token": FencingToken("", 1, 0)}, "shard_id"),
        (OperationKind.CREATE, {"token": FencingToken("s" * 1025, 1, 1)}, "shard_id"),
        (OperationKind.CREATE, {"machine_id": "é" * 600}, "machine_id"),
        (OperationKind.CONFIGURE, {"cluster": ""}, "cluster_id"),
        (OperationKind.CONFIGURE, {"blob_bytes": MAX_BLOB_BYTES + 1}, "bootstrap_blob"),
        (OperationKind.CONFIGURE, {"shard_metadata": {"k": "v" * MAX_METADATA_BYTES}}, "shard_metadata"),
    ],
)
def test_a_bad_argument_is_named_and_leaves_no_mark(
    state_with: MakeBook, kind: OperationKind, given: dict[str, object], named: str
) -> None:
    provider_state = state_with(EDGES[kind].source)
    verdict = decide(provider_state, call(kind, **given), CallRules())  # type: ignore[arg-type]  # fields by name
    assert verdict.refusal is CallRefusal.BAD_ARGUMENT
    assert verdict.detail.startswith(f"{named}: found ")
    assert verdict.changes == ()


def test_an_empty_token_passes_unless_fencing_is_required(state_with: MakeBook) -> None:
    provider_state = state_with(S.SPECULATIVE)
    provider_state.load(FenceMark("shard", "m", 9, 9))
    passed = decide(provider_state, call(OperationKind.CREATE, token=NO_TOKEN), CallRules())
    assert [type(change) for change in passed.changes] == [PutMachine]
    refused = decide(
        provider_state, call(OperationKind.CREATE, token=NO_TOKEN), CallRules(require_fencing=True)
    )
    assert (refused.refusal, refused.changes) == (CallRefusal.UNFENCED, ())


def test_five_operations_have_five_ids_and_a_repeat_returns_the_last(state_with: MakeBook) -> None:
    provider_state = state_with(S.SPECULATIVE)
    ids = []
    for kind in (
        OperationKind.CREATE,
        OperationKind.CONFIGURE,
        OperationKind.DRAIN,
        OperationKind.CONFIGURE,
        OperationKind.DRAIN,
    ):
        verdict = decide(provider_state, call(kind, token=NO_TOKEN), CallRules())
        provider_state.apply(verdict.changes)
        ids.append(provider_state.operation_id(verdict.operation))
        entry = provider_state.entry("m")
        assert entry is not None
        put = succeed(provider_state, entry, kind, verdict.operation, CreatedHost("h"))
        assert put is not None
        provider_state.apply([put])
    assert len(set(ids)) == 5
    repeat = decide(provider_state, call(OperationKind.DRAIN, token=NO_TOKEN), CallRules())
    assert (repeat.begins, provider_state.operation_id(repeat.operation)) == (False, ids[-1])


@pytest.mark.rule("providers#negative-token-parts")
@pytest.mark.parametrize("kind", OperationKind)
def test_negative_parts_of_a_token_are_compared_like_any_number(
    state_with: MakeBook, kind: OperationKind
) -> None:
    state = state_with(EDGES[kind].source)
    state.load(FenceMark("shard", "m", 1, 1))
    for position in ((1, -1), (-1, 9), (-7, -3)):
        fenced = decide(state, call(kind, token=FencingToken("shard", *position)), CallRules())
        assert (fenced.refusal, fenced.changes) == (CallRefusal.FENCED, ())
    first = decide(state, call(kind, token=FencingToken("another", -7, -3)), CallRules())
    assert first.refusal is None
    state.apply(first.changes)
    assert state.fence.mark("another", "m", state.table.row("m")) == (-7, -3)
    assert state.fence.passes(FencingToken("another", -7, -2), "m", state.table.row("m"))
