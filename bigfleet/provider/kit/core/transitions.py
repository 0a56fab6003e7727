"""Transitions of a machine without a call: the end of an operation, a loss, a refresh, a repair.

Why: every way a record can change is in this module or in `calls`, each as one function from entry to change.
Must never: apply anything, move a machine that is in another state than the event assumes, or change a bound machine's cluster.
Rules: `providers#states`, `providers#reads`, `providers#revision`, `providers#kit`.
"""

from dataclasses import dataclass, replace

from bigfleet.model.frozen_map import NO_TEXTS
from bigfleet.model.machine import MachineState as S
from bigfleet.model.machine import Shape, check_state
from bigfleet.provider.contract import (
    BOUND_STATES,
    EDGES,
    KIND_OF_TRANSITIONAL,
    REMOVED_LABEL,
    REMOVED_PREFIX,
    OperationKind,
)
from bigfleet.provider.kit.core.changes import NO_OPERATIONS, DropMachine, PutMachine
from bigfleet.provider.kit.core.state import MachineEntry, ProviderState
from bigfleet.provider.kit.core.texts import one_line
from bigfleet.provider.kit.core.values import (
    CreatedHost,
    DescribedMachine,
    MachineRecord,
    Timestamp,
    refreshed_offer,
    shown_after,
    with_host,
)


@dataclass(frozen=True, slots=True)
class Lost:
    """A machine broke or was taken away. With `gone` it does not come back, and becomes a tombstone."""

    machine_id: str
    reason: str
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Priced:
    """The price or the interruption probability changed; None leaves the value as it is."""

    machine_id: str
    price_per_hour: float | None = None
    interruption_probability: float | None = None


def succeed(
    state: ProviderState,
    entry: MachineEntry,
    kind: OperationKind,
    number: int,
    host: CreatedHost | None = None,
) -> PutMachine | None:
    """Complete an operation; None if it is no longer in progress, as after a timeout."""
    if not _under_way(entry, kind, number):
        return None
    machine = replace(entry.machine, state=EDGES[kind].target, last_error="")
    match kind:
        case OperationKind.CREATE if host is not None:
            machine = replace(machine, host=host.ref, shape=with_host(entry.offer, host))
        case OperationKind.DRAIN:
            machine = replace(machine, cluster="", shard_metadata=NO_TEXTS)
        case OperationKind.DELETE:
            machine = replace(machine, host="", shape=entry.offer)
    return _put(state, entry, machine)


def fail(
    state: ProviderState, entry: MachineEntry, kind: OperationKind, number: int, reason: str
) -> PutMachine | None:
    """End an operation badly; cluster, map and host stay as they were."""
    if not _under_way(entry, kind, number):
        return None
    return _put(state, entry, _failed(entry.machine, reason))


def lose(state: ProviderState, entry: MachineEntry, event: Lost, now: Timestamp) -> PutMachine | None:
    """Fail a machine that broke, in whatever state; a Failed one keeps its error."""
    if event.gone:
        return make_tombstone(state, entry, event.reason, now)
    if entry.machine.state in (S.SPECULATIVE, S.FAILED):
        return None  # there is no host to lose
    return _put(state, entry, _failed(entry.machine, event.reason))


def reprice(state: ProviderState, entry: MachineEntry, event: Priced) -> PutMachine | None:
    """Set another price or interruption probability, in the offer and in what is shown."""
    price, risk = event.price_per_hour, event.interruption_probability
    offer = replace(
        entry.offer,
        price_per_hour=entry.offer.price_per_hour if price is None else price,
        interruption_probability=entry.offer.interruption_probability if risk is None else risk,
    )
    return update_offer(state, entry, offer)


def update_offer(state: ProviderState, entry: MachineEntry, described: Shape) -> PutMachine | None:
    """Take over what a refresh may change; None, and no revision, when nothing differs."""
    offer = refreshed_offer(entry.offer, described)
    if offer == entry.offer or entry.gone_at_s:
        return None
    shown = shown_after(entry.machine.shape, entry.offer, offer)
    return state.put(replace(entry.machine, shape=shown), offer, entry.operations)


def admit(state: ProviderState, slot: DescribedMachine) -> PutMachine:
    """Add a described machine that was not known."""
    first_state = slot.first_state
    machine = MachineRecord(
        id=slot.id,
        state=first_state,
        shape=slot.shape,
        host=slot.host,
        cluster=slot.cluster,
        shard_metadata=slot.shard_metadata,
        last_error=slot.last_error,
    )
    # For a machine that begins Configured, a repeated Configure must find an operation.
    return state.put(
        machine,
        slot.shape,
        NO_OPERATIONS,
        starts=OperationKind.CONFIGURE if first_state is S.CONFIGURED else None,
    )


def make_tombstone(
    state: ProviderState, entry: MachineEntry, reason: str, now: Timestamp
) -> PutMachine | None:
    """Turn a machine that is gone into a tombstone; None if it is one already."""
    if entry.gone_at_s:
        return None
    labels = entry.machine.shape.labels.merged({REMOVED_LABEL: now.text})
    machine = replace(
        _failed(entry.machine, f"{REMOVED_PREFIX} {reason}"), shape=entry.machine.shape.with_labels(labels)
    )
    return state.put(machine, entry.offer, entry.operations, gone_at_s=now.seconds)


def may_make_tombstone(state: S) -> bool:
    """Return whether a machine that refreshes no longer find may become a tombstone: not when bound or transitional."""
    return state not in BOUND_STATES and state not in KIND_OF_TRANSITIONAL


def forget(entry: MachineEntry, now_s: int, retention_s: int) -> DropMachine | None:
    """Drop a tombstone whose retention has ended."""
    if not entry.gone_at_s or now_s - entry.gone_at_s < retention_s:
        return None
    return DropMachine(entry.machine.id)


def repair(state: ProviderState, entry: MachineEntry, to: S) -> PutMachine | str:
    """Return the change that repairs a Failed machine, or the reason why it cannot be repaired."""
    machine = entry.machine
    if machine.state is not S.FAILED:
        return f"the machine is {machine.state.label}, only a Failed one can be repaired"
    if to is S.IDLE and not machine.host:
        return "the machine has no host, so it can only become Speculative"
    if to not in (S.IDLE, S.SPECULATIVE):
        return f"a machine is repaired to Idle or Speculative, not to {to.label}"
    mended = replace(machine, state=to, cluster="", shard_metadata=NO_TEXTS, last_error="")
    if to is S.SPECULATIVE:
        mended = replace(mended, host="", shape=entry.offer)
    else:
        mended = replace(mended, shape=mended.shape.with_labels(entry.offer.labels))
    return state.put(mended, entry.offer, entry.operations)


def _under_way(entry: MachineEntry, kind: OperationKind, number: int) -> bool:
    return entry.machine.state is EDGES[kind].during and entry.operation(kind) == number


def _failed(machine: MachineRecord, reason: str) -> MachineRecord:
    return replace(machine, state=S.FAILED, last_error=one_line(reason) or "failed without a reason")


def _put(state: ProviderState, entry: MachineEntry, machine: MachineRecord) -> PutMachine:
    # The last check: a record that breaks a rule of its state must not be written.
    check_state(machine.state, bool(machine.host), bool(machine.cluster), bool(machine.last_error))
    return state.put(machine, entry.offer, entry.operations, gone_at_s=entry.gone_at_s)
