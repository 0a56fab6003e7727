"""Decides a mutating call by checks in a fixed order, the same for all four calls.

Why: the contract fixes which of several errors a caller gets, and that a refused call leaves its fence mark and nothing else.
Must never: apply anything, read a clock, or call author code before the call is accepted.
Rules: `providers#check-order`, `providers#idempotency-table`, `providers#fence-mark`, `providers#epoch-per-shard`,
`providers#epoch-step`, `providers#status-codes`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import (
    EDGES,
    MAX_BLOB_BYTES,
    MAX_EPOCH_STEP,
    MAX_GRACE_S,
    MAX_ID_BYTES,
    MAX_METADATA_BYTES,
    OperationKind,
)
from bigfleet.provider.kit.core.changes import FenceMark, GraceEnd, ShardEpoch, StateChange
from bigfleet.provider.kit.core.fence import NO_TOKEN, FencingToken
from bigfleet.provider.kit.core.state import MachineEntry, ProviderState


@dataclass(frozen=True, slots=True)
class MutatingCall:
    """One of the four calls; fields that its kind does not have stay empty."""

    kind: OperationKind
    machine_id: str
    token: FencingToken = NO_TOKEN
    cluster: str = ""
    shard_metadata: Mapping[str, str] = NO_TEXTS
    blob_bytes: int = 0
    grace_s: int = 0
    grace_end_s: int = 0
    """When the grace period of a Drain ends, in seconds since 1970."""
    exclusive: bool = False
    """Whether the caller announced that its epochs are exclusive."""


@dataclass(frozen=True, slots=True)
class CallRules:
    """What one provider offers and requires."""

    delete_offered: bool = True
    require_fencing: bool = False
    max_epoch_step: int = MAX_EPOCH_STEP


class CallRefusal(Enum):
    """Why a call is not accepted."""

    BAD_ARGUMENT = "an argument is invalid"
    UNFENCED = "the call has no fencing token"
    IMPLAUSIBLE_EPOCH = "the epoch is too far above the one known"
    NOT_OFFERED = "the operation is not offered"
    FENCED = "the token is stale"
    UNKNOWN = "no such machine"
    OUT_OF_POSITION = "the machine is not in the state from which the operation starts"


@dataclass(frozen=True, slots=True)
class CallDecision:
    """How a call is answered: refused, by an earlier operation, or by a new one; with the changes to write first."""

    changes: tuple[StateChange, ...] = ()
    refusal: CallRefusal | None = None
    detail: str = ""
    operation: int = 0
    begins: bool = False


# By kind: states with that operation in progress, and states it leads to. In both the recorded operation answers the call,
# if there is one: a machine of the free pool is Idle without having been created.
_SAME_TARGET = {
    OperationKind.CREATE: (frozenset({S.CREATING}), frozenset({S.IDLE})),
    OperationKind.CONFIGURE: (frozenset({S.CONFIGURING, S.CONFIGURED}), frozenset[S]()),
    OperationKind.DRAIN: (frozenset({S.DRAINING}), frozenset({S.IDLE})),
    OperationKind.DELETE: (frozenset({S.DELETING}), frozenset({S.SPECULATIVE})),
}


_UNFENCED = "shard_id: found '', allowed here is only a call with a fencing token"


def decide(state: ProviderState, call: MutatingCall, rules: CallRules) -> CallDecision:
    """Decide a call on the present state; the first check that fails gives the error."""
    if not call.machine_id:
        return CallDecision(refusal=CallRefusal.BAD_ARGUMENT, detail="machine_id: found '', allowed is an id")
    if call.kind is OperationKind.DELETE and not rules.delete_offered:
        return CallDecision(refusal=CallRefusal.NOT_OFFERED, detail="this provider has no Delete")
    flaw = _flaw(call)
    if flaw:
        return CallDecision(refusal=CallRefusal.BAD_ARGUMENT, detail=flaw)
    if call.token.is_empty and rules.require_fencing:
        return CallDecision(refusal=CallRefusal.UNFENCED, detail=_UNFENCED)
    row = state.table.row(call.machine_id)
    marks: tuple[StateChange, ...] = ()
    token = call.token
    if not token.is_empty:
        if call.exclusive and state.fence.is_over(token):
            return CallDecision(refusal=CallRefusal.FENCED, detail=_over(state, token))
        if not state.fence.passes(token, call.machine_id, row):
            return CallDecision(refusal=CallRefusal.FENCED, detail=_fenced(state, call, row))
        detail = _implausible(state, call, rules)
        if detail:
            return CallDecision(refusal=CallRefusal.IMPLAUSIBLE_EPOCH, detail=detail)
        marks = (FenceMark(token.shard_id, call.machine_id, token.epoch, token.sequence),)
        if call.exclusive and state.fence.raises_epoch(token.shard_id, token.epoch):
            marks = (*marks, ShardEpoch(token.shard_id, token.epoch))
    entry = state.entry(call.machine_id)
    if entry is None:
        return CallDecision(marks, CallRefusal.UNKNOWN, "this provider knows no such machine")
    recorded = _recorded(call.kind, entry)
    if recorded:
        return CallDecision(marks, operation=recorded)
    edge = EDGES[call.kind]
    if entry.machine.state is not edge.source:
        found = entry.machine.state.label
        detail = f"the machine is {found}, {call.kind.call} begins at {edge.source.label}"
        return CallDecision(marks, CallRefusal.OUT_OF_POSITION, detail)
    return _accept(state, call, entry, marks)


def _accept(
    state: ProviderState, call: MutatingCall, entry: MachineEntry, marks: tuple[StateChange, ...]
) -> CallDecision:
    machine = replace(entry.machine, state=EDGES[call.kind].during, last_error="")
    if call.kind is OperationKind.CONFIGURE:
        # Copied, as the caller may change its map afterwards.
        machine = replace(machine, cluster=call.cluster, shard_metadata=FrozenMap(call.shard_metadata))
    put = state.put(machine, entry.offer, entry.operations, starts=call.kind)
    ends = (GraceEnd(machine.id, put.revision, call.grace_end_s),) if call.grace_s else ()
    return CallDecision((*marks, put, *ends), operation=put.revision, begins=True)


def _recorded(kind: OperationKind, entry: MachineEntry) -> int:
    """Return the number of the recorded operation that answers this call, 0 when there is none."""
    under_way, reached = _SAME_TARGET[kind]
    if entry.machine.state in under_way or entry.machine.state in reached:
        return entry.operation(kind)
    return 0


def _flaw(call: MutatingCall) -> str:
    """Return which argument is invalid, empty when none is; these checks come before the fence.

    Epoch and sequence are not among them: any number of 64 bits, negative ones included, is for the fence to compare.
    """
    token = call.token
    for field, text in (
        ("machine_id", call.machine_id),
        ("shard_id", token.shard_id),
        ("cluster_id", call.cluster),
    ):
        if len(text) > MAX_ID_BYTES or len(text.encode()) > MAX_ID_BYTES:
            return f"{field}: found {len(text.encode())} bytes, allowed is at most {MAX_ID_BYTES}"
    if not token.shard_id and not token.is_empty:
        return "shard_id: found '', allowed with an epoch or sequence number is an id"
    if not 0 <= call.grace_s <= MAX_GRACE_S:
        return f"grace_period_seconds: found {call.grace_s}, allowed is 0 to {MAX_GRACE_S}"
    if call.kind is OperationKind.CONFIGURE and not call.cluster:
        return "cluster_id: found '', allowed is the id of a cluster"
    if call.blob_bytes > MAX_BLOB_BYTES:
        return f"bootstrap_blob: found {call.blob_bytes} bytes, allowed is at most {MAX_BLOB_BYTES}"
    size = sum(len(key.encode()) + len(value.encode()) for key, value in call.shard_metadata.items())
    if size > MAX_METADATA_BYTES:
        return f"shard_metadata: found {size} bytes, allowed is at most {MAX_METADATA_BYTES}"
    return ""


def _fenced(state: ProviderState, call: MutatingCall, row: int | None) -> str:
    mark = state.fence.mark(call.token.shard_id, call.machine_id, row)
    return f"epoch and sequence {call.token.position} of {call.token.shard_id} are not newer than {mark}"


def _implausible(state: ProviderState, call: MutatingCall, rules: CallRules) -> str:
    """Return why an epoch cannot be the number of a shard's starts, empty when it can."""
    token = call.token
    highest = state.fence.highest_plausible(token.shard_id, rules.max_epoch_step, announced=call.exclusive)
    if highest is None or token.epoch <= highest:
        return ""
    return (
        f"shard_epoch: found {token.epoch}, allowed for {token.shard_id} is at most {highest}: the highest seen is "
        f"{state.fence.epoch(token.shard_id) or 0}, and an epoch counts the starts of a shard"
    )


def _over(state: ProviderState, token: FencingToken) -> str:
    newest = state.fence.epoch(token.shard_id)
    return f"epoch {token.epoch} of {token.shard_id} is over, as a process with epoch {newest} has started"
