"""What behaviours demand of an answer; whatever is not met raises `ViolationError` with what was found and what was due.

Must never: accept a missing answer as a refusal: a call that ran into its deadline was not refused.
Rules: `providers#status-codes`, `providers#observation`.
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from bigfleet.aio.net import Code
from bigfleet.provider.conformance.caller import GetReply, ListReply, MutationReply
from bigfleet.provider.conformance.calls import told_machine
from bigfleet.provider.conformance.errors import ViolationError
from bigfleet.provider.conformance.states import State, state_name
from bigfleet.v1alpha1 import provider_pb2 as pb


def fail(text: str) -> NoReturn:
    """End the behaviour as failed."""
    raise ViolationError(text)


def require(condition: bool, text: str) -> None:
    """Fail unless the condition holds."""
    if not condition:
        raise ViolationError(text)


def accepted(ack: MutationReply, what: str) -> MutationReply:
    """Demand success."""
    require(ack.ok, f"{what}: found {ack}, due was OK")
    return ack


def operation(ack: MutationReply, what: str) -> str:
    """Demand success with an operation id, and return it."""
    accepted(ack, what)
    require(bool(ack.operation_id), f"{what}: accepted without an operation_id")
    return ack.operation_id


def fenced(ack: MutationReply, what: str) -> None:
    """Demand the one code that means a stale token."""
    require(ack.fenced, f"{what}: found {ack}, due was FAILED_PRECONDITION")


def rejected(ack: MutationReply, what: str) -> None:
    """Demand an error of any code but the one that means a stale token."""
    require(not ack.ok, f"{what}: found {ack}, due was a rejection")
    require(not ack.fenced, f"{what}: found FAILED_PRECONDITION, which means fenced and nothing else")
    require(ack.code is not Code.DEADLINE_EXCEEDED, f"{what}: no answer within the deadline")


def answered(found: MutationReply | GetReply | ListReply, what: str, *due: Code) -> None:
    """Demand one of the codes given."""
    wanted = " or ".join(code.name for code in due)
    require(found.code in due, f"{what}: found {found}, due was {wanted}")


def listed(listing: ListReply, what: str) -> ListReply:
    """Demand a listing without duplicate ids."""
    require(listing.ok, f"{what}: found {listing}, due was OK")
    require(len(set(listing.ids)) == len(listing.ids), f"{what}: the same id is listed twice")
    return listing


def in_state(machine: pb.Machine, state: State, what: str) -> None:
    """Demand that a record is in one state."""
    found, due = state_name(machine.state), state_name(state)
    require(machine.state == state, f"{what}: found {machine.id} in {found}, due was {due}")


def unbound(machine: pb.Machine, what: str) -> None:
    """Demand that a record has neither cluster nor metadata."""
    require(not machine.cluster, f"{what}: {machine.id} still has cluster {machine.cluster!r}")
    count = len(machine.shard_metadata)
    require(not count, f"{what}: {machine.id} still has {count} metadata keys")


def bound_to(machine: pb.Machine, cluster: str, what: str) -> None:
    """Demand that a record names its cluster."""
    found = machine.cluster
    require(found == cluster, f"{what}: {machine.id} has cluster {found!r}, due was {cluster!r}")


def carries(machine: pb.Machine, metadata: Mapping[str, str], what: str) -> None:
    """Demand that a record has exactly this metadata, byte for byte."""
    found = dict(machine.shard_metadata)
    if found == dict(metadata):
        return
    missing = [key for key in metadata if key not in found]
    foreign = [key for key in found if key not in metadata]
    changed = [key for key, value in metadata.items() if key in found and found[key] != value]
    texts = "; ".join(
        f"{kind} {', '.join(repr(key[:40]) for key in sorted(keys)[:3])}{' …' if len(keys) > 3 else ''}"
        for kind, keys in (("missing", missing), ("foreign", foreign), ("changed", changed))
        if keys
    )
    fail(f"{what}: metadata of {machine.id} differs from what was sent: {texts}")


def failed_with_reason(machine: pb.Machine, what: str) -> None:
    """Demand FAILED with a `last_error`."""
    require(
        machine.state == pb.MACHINE_STATE_FAILED,
        f"{what}: found {told_machine(machine)}, due was FAILED",
    )
    require(bool(machine.last_error), f"{what}: {machine.id} is FAILED without last_error")


def only_passes(seen: Sequence[State], allowed: Sequence[State], what: str) -> None:
    """Demand that no state was seen but the allowed ones."""
    wrong = [state_name(state) for state in seen if state not in allowed]
    due = ", ".join(state_name(state) for state in allowed)
    require(not wrong, f"{what}: passed through {', '.join(wrong)}, allowed is {due}")


def same_operation(acks: Sequence[MutationReply], what: str) -> str:
    """Demand that those of several calls that succeeded share one id, that one did, and that none was fenced."""
    for ack in acks:
        if not ack.ok:
            rejected(ack, what)
    ids = sorted({ack.operation_id for ack in acks if ack.ok})
    require(bool(ids), f"{what}: not one call was accepted")
    require(
        len(ids) == 1 and bool(ids[0]),
        f"{what}: found operation ids {', '.join(map(repr, ids))}, due was one",
    )
    return ids[0]
