"""Validates described machines before they become records.

Must never: repair one.
Rules: `providers#record-fields`, `providers#kit`; ADR-0005.
"""

from dataclasses import dataclass

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.machine import (
    CLUSTER_REQUIRED,
    HOST_FORBIDDEN,
    HOST_REQUIRED,
    STABLE_STATES,
    CapacityType,
    MachineState,
    Shape,
)
from bigfleet.model.resources import Resources
from bigfleet.provider.contract import FORBIDDEN_LABELS, MAX_ID_BYTES, REMOVED_LABEL
from bigfleet.provider.kit.core.values import DescribedMachine

MAX_HOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class RecordFault:
    """One rule that one described machine breaks; `reason` is the field, a label of metrics."""

    machine_id: str
    reason: str
    text: str

    def __str__(self) -> str:
        return f"{self.machine_id or '(no id)'}: {self.text}"


class RecordValidator:
    """Validates described machines; each shape once, as thousands of machines share one."""

    def __init__(self) -> None:
        self._judged: dict[Shape, tuple[tuple[str, str], ...]] = {}
        # The same by identity, as hashing a shape is slow; the dictionary above keeps each shape alive.
        self._met: dict[int, tuple[tuple[str, str], ...]] = {}

    def faults(self, slot: DescribedMachine) -> tuple[RecordFault, ...]:
        found = self._met.get(id(slot.shape))
        if found is None:
            found = self._judged.get(slot.shape)
        if found is None:
            errors = _shape_errors(slot.shape)
            found = tuple((error.field.partition("[")[0], str(error)) for error in errors)
            self._judged[slot.shape] = self._met[id(slot.shape)] = found
        own = _slot_errors(slot)
        if not found and not own:
            return ()
        texts = (*((error.field, str(error)) for error in own), *found)
        return tuple(RecordFault(slot.id, reason, text) for reason, text in texts)


def _slot_errors(slot: DescribedMachine) -> list[InvalidFieldError]:
    errors: list[InvalidFieldError] = []
    if not slot.id or len(slot.id.encode()) > MAX_ID_BYTES:
        errors.append(InvalidFieldError("id", slot.id[:64], f"1 to {MAX_ID_BYTES} bytes"))
    if len(slot.host) > MAX_HOST_BYTES:
        errors.append(InvalidFieldError("host", slot.host[:64], f"at most {MAX_HOST_BYTES} characters"))
    if slot.state is None:
        return errors if not slot.cluster else [*errors, InvalidFieldError("cluster", slot.cluster, "empty")]
    state = slot.state
    if state not in STABLE_STATES:
        allowed = ", ".join(known.label for known in sorted(STABLE_STATES))
        errors.append(InvalidFieldError("state", state.label, f"one of {allowed}"))
    if state in HOST_REQUIRED and not slot.host:
        errors.append(InvalidFieldError("host", "", f"a host while {state.label}"))
    if state in HOST_FORBIDDEN and slot.host:
        errors.append(InvalidFieldError("host", slot.host, f"none while {state.label}"))
    if state in CLUSTER_REQUIRED and not slot.cluster:
        errors.append(InvalidFieldError("cluster", "", f"a cluster while {state.label}"))
    if slot.cluster and state not in (MachineState.CONFIGURED, MachineState.FAILED):
        errors.append(InvalidFieldError("cluster", slot.cluster, f"none while {state.label}"))
    if (state is MachineState.FAILED) != bool(slot.last_error):
        errors.append(InvalidFieldError("last_error", slot.last_error, "a text while Failed, else none"))
    return errors


def _shape_errors(shape: Shape) -> list[InvalidFieldError]:
    errors: list[InvalidFieldError] = []
    if not shape.instance_type:
        errors.append(InvalidFieldError("instance_type", "", "a text that is not empty"))
    # Also without a host: Create adds one, and has no way to say in which zone it is.
    if not shape.zone:
        errors.append(InvalidFieldError("zone", "", "a text that is not empty"))
    if shape.capacity_type is CapacityType.UNSPECIFIED:
        allowed = ", ".join(known.label for known in CapacityType if known)
        errors.append(InvalidFieldError("capacity_type", shape.capacity_type.label, f"one of {allowed}"))
    if shape.flaw is not None:
        errors.append(shape.flaw)
    elif shape.capacity_type is CapacityType.SPOT and not shape.interruption_probability > 0:
        errors.append(
            InvalidFieldError("interruption_probability", shape.interruption_probability, "above 0 for Spot")
        )
    errors += _size_errors(shape)
    for key in sorted(FORBIDDEN_LABELS & shape.labels.keys()):
        errors.append(
            InvalidFieldError(f"labels[{key}]", shape.labels[key], "a key without a field of its own")
        )
    if REMOVED_LABEL in shape.labels:
        errors.append(
            InvalidFieldError(f"labels[{REMOVED_LABEL}]", "", "a key that the kit does not set itself")
        )
    return errors


def _size_errors(shape: Shape) -> list[InvalidFieldError]:
    try:
        amounts = Resources.parse(shape.resources)
    except InvalidFieldError:
        return []  # already reported as the flaw of the shape
    return [
        InvalidFieldError(f"resources[{name}]", shape.resources[name], "more than zero")
        for name in shape.resources
        if not amounts.amount(name)
    ]


def host_error(shape: Shape) -> InvalidFieldError | None:
    """Return what is wrong with the size that a host reported, None when it is valid."""
    return shape.flaw or next(iter(_size_errors(shape)), None)
