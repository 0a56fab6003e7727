"""The machine: one inventory record, from quota slot to serving host; its states, edges and invariants.

Why: the shard acts on real machines, so a record that cannot be true must not enter, and a write that skips a step
must be refused for every caller.
Rules: `engine#machine-record`, `engine#machine-invariants`, `engine#transitions`; Configuring needs a cluster
(`providers#states`); prices are finite (`engine#machine-invariants`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

from bigfleet.model.errors import IllegalTransitionError, InvalidFieldError, InvariantError
from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.profile import HOST_NAME_KEY, INSTANCE_TYPE_KEY, ZONE_KEY
from bigfleet.model.quantity import NANO
from bigfleet.model.resources import Resources

MAX_ID_BYTES = 1024
MAX_TEXT_BYTES = 65_534  # of a host reference or a label; the inventory keeps lengths in 16 bits


PODS = "pods"
DEFAULT_PODS = Resources({PODS: 110 * NANO})
"""What a kubelet admits that was given no other number."""


class MachineState(IntEnum):
    """The eight states and the guard value, which is never legal; the numbers are the wire's."""

    UNSPECIFIED = 0
    SPECULATIVE = 1
    CREATING = 2
    IDLE = 3
    CONFIGURING = 4
    CONFIGURED = 5
    DRAINING = 6
    DELETING = 7
    FAILED = 8

    @property
    def label(self) -> str:
        """The state as documents, metrics and tables write it."""
        return self.name.capitalize()


S = MachineState

TRANSITIONS: Mapping[MachineState, tuple[MachineState, ...]] = {
    S.SPECULATIVE: (S.CREATING,),
    S.CREATING: (S.IDLE, S.FAILED),
    S.IDLE: (S.CONFIGURING, S.DELETING),
    S.CONFIGURING: (S.CONFIGURED, S.FAILED, S.IDLE),  # Idle: rolled back before the provider was asked
    S.CONFIGURED: (S.DRAINING,),
    S.DRAINING: (S.IDLE, S.FAILED),
    S.DELETING: (S.SPECULATIVE, S.FAILED),
    S.FAILED: (),
}

STABLE_STATES = frozenset({S.SPECULATIVE, S.IDLE, S.CONFIGURED, S.FAILED})
BOUND_STATES = frozenset({S.CONFIGURING, S.CONFIGURED})

HOST_REQUIRED = frozenset({S.IDLE, S.CONFIGURING, S.CONFIGURED, S.DRAINING, S.DELETING})
HOST_FORBIDDEN = frozenset({S.SPECULATIVE, S.CREATING})
CLUSTER_REQUIRED = frozenset({S.CONFIGURING, S.CONFIGURED, S.DRAINING})
CLUSTER_FORBIDDEN = frozenset({S.SPECULATIVE, S.CREATING})


class CapacityType(IntEnum):
    """The cost of holding a machine that serves no cluster; only the release rule uses it."""

    UNSPECIFIED = 0
    BARE_METAL = 1
    RESERVED = 2
    ON_DEMAND = 3
    SPOT = 4

    @property
    def label(self) -> str:
        """The type as documents write it: BareMetal, OnDemand and so on."""
        return self.name.title().replace("_", "")


@dataclass(frozen=True, slots=True)
class HostRef:
    """The provider's name for the hardware behind a machine; empty when both parts are."""

    provider: str = ""
    ref: str = ""

    def __bool__(self) -> bool:
        return bool(self.provider or self.ref)


NO_HOST = HostRef()


@dataclass(frozen=True)  # no slots: capacity is parsed once per shape, and shapes are shared
class Shape:
    """What a machine is, regardless of its cluster: type, zone, price, risk, size and labels."""

    instance_type: str = ""
    zone: str = ""
    capacity_type: CapacityType = CapacityType.UNSPECIFIED
    price_per_hour: float = 0.0
    interruption_probability: float = 0.0
    resources: FrozenMap[str] = NO_TEXTS
    allocatable: FrozenMap[str] = NO_TEXTS
    labels: FrozenMap[str] = NO_TEXTS

    @cached_property
    def capacity(self) -> Resources:
        """What the machine offers: allocatable as a whole if it names anything, else resources (`engine#capacity`)."""
        return Resources.parse(self.allocatable or self.resources)

    @property
    def states_pods(self) -> bool:
        """Whether the capacity says how many pods there is room for."""
        return PODS in (self.allocatable or self.resources)

    @property
    def with_pods(self) -> Resources:
        """The capacity, with room for the default number of pods where it does not say how many (`engine#pods`)."""
        return self.capacity if self.states_pods else self.capacity + DEFAULT_PODS

    @cached_property
    def flaw(self) -> InvariantError | None:
        """What makes the shape unfit for any machine; judged once, as shapes are shared."""
        if not (self.price_per_hour >= 0 and math.isfinite(self.price_per_hour)):
            return InvariantError(
                "price_per_hour", self.price_per_hour, "a finite number that is not negative"
            )
        if not 0 <= self.interruption_probability <= 1:
            return InvariantError(
                "interruption_probability", self.interruption_probability, "a number from 0 to 1"
            )
        for name, texts in (("resources", self.resources), ("allocatable", self.allocatable)):
            try:
                Resources.parse(texts)
            except InvalidFieldError as error:
                return InvariantError(f"{name}{error.field}", error.found, error.allowed)
        for key, value in self.labels.items():
            if len(value.encode()) > MAX_TEXT_BYTES:
                return _too_long(f"labels[{key[:64]}]", value, MAX_TEXT_BYTES)
        return None

    def label(self, key: str) -> str | None:
        """The value that every machine of this shape has for a key; None when it has none (`engine#label-lookup`)."""
        if key == INSTANCE_TYPE_KEY and self.instance_type:
            return self.instance_type
        if key == ZONE_KEY and self.zone:
            return self.zone
        return self.labels.get(key)

    def with_labels(self, labels: FrozenMap[str]) -> "Shape":
        """The same but for its labels."""
        return self if labels is self.labels else replace(self, labels=labels)


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the executor stamped on a machine: for whom and at what worth it was obtained."""

    priority: int = 0
    interruption_penalty: float = 0.0
    reclamation_penalty: float = 0.0
    fingerprint: str = ""
    group: str = ""
    # destination of a Creating machine, which has no binding yet (`engine#crediting`, `engine#stamps`)
    cluster: str = ""


UNASSIGNED = Assignment()


@dataclass(frozen=True, slots=True)
class NeedRef:
    """Which need a preempted machine drains for (`engine#preemption-in-flight`)."""

    cluster: str
    fingerprint: str
    group: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """One inventory record; the same form in every state."""

    id: str
    state: MachineState
    shape: Shape = Shape()
    host: HostRef = NO_HOST
    cluster: str = ""
    assigned: Assignment = UNASSIGNED
    last_error: str = ""
    idle_since: float | None = None
    draining_for: NeedRef | None = None
    drain_grace_remaining_s: float = 0.0
    metadata: FrozenMap[str] = NO_TEXTS
    """The provider's copy of the assignment. Decoded when a record enters, then dropped: the inventory keeps none."""

    def label(self, key: str) -> str | None:
        """The value a requirement on this key is judged by; None when there is none (`engine#label-lookup`)."""
        value = self.shape.label(key)
        return self.id if value is None and key == HOST_NAME_KEY else value


def check(machine: Machine) -> None:
    """Refuse a record that breaks a rule of its state, naming the field."""
    if not machine.id:
        raise InvariantError("id", machine.id, "a text that is not empty")
    if len(machine.id.encode()) > MAX_ID_BYTES:
        raise _too_long("id", machine.id, MAX_ID_BYTES)
    if len(machine.host.ref.encode()) > MAX_TEXT_BYTES:
        raise _too_long("host.ref", machine.host.ref, MAX_TEXT_BYTES)
    check_state(machine.state, bool(machine.host), bool(machine.cluster), bool(machine.last_error))
    flaw = machine.shape.flaw
    if flaw is not None:
        # A new error, as a raised one keeps its traceback.
        raise InvariantError(flaw.field, flaw.found, flaw.allowed)


def check_state(state: MachineState, has_host: bool, has_cluster: bool, has_error: bool) -> None:
    """Refuse a combination of state, host, cluster and error text that cannot be true."""
    if state not in TRANSITIONS:
        raise InvariantError(
            "state", state.label, f"one of {', '.join(known.label for known in TRANSITIONS)}"
        )
    if has_host and state in HOST_FORBIDDEN:
        raise InvariantError("host", "a host", f"none while {state.label}")
    if not has_host and state in HOST_REQUIRED:
        raise InvariantError("host", "", f"a host while {state.label}")
    if has_cluster and state in CLUSTER_FORBIDDEN:
        raise InvariantError("cluster", "a cluster", f"none while {state.label}")
    if not has_cluster and state in CLUSTER_REQUIRED:
        raise InvariantError("cluster", "", f"a cluster while {state.label}")
    if state is S.FAILED and not has_error:
        raise InvariantError("last_error", "", "a text that is not empty while Failed")


def _too_long(field: str, text: str, limit: int) -> InvariantError:
    return InvariantError(field, f"{text[:40]}…", f"a text of at most {limit} bytes")


def check_transition(machine_id: str, before: MachineState, after: MachineState) -> None:
    """Refuse a write that is not one of the thirteen edges; staying in a state is no transition."""
    if before is not after and after not in TRANSITIONS[before]:
        allowed = ", ".join(state.label for state in TRANSITIONS[before]) or "nothing"
        raise IllegalTransitionError(machine_id, before.label, after.label, allowed)
