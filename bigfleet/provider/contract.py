"""The contract between shard and provider as data: six calls, four operations, the limits.

Must never: import a message, a transport or a clock; pure cores import it.
Rules: `providers#states`, `providers#check-order`, `providers#reads`, `providers#idempotency-table`,
`providers#fence-mark`, `providers#revision`, `providers#status-codes`, `providers#record-fields`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bigfleet.model.machine import MachineState as S

SERVICE: Final = "bigfleet.v1alpha1.CapacityProvider"
IDLE_CONNECTION_S: Final = 900.0
"""A server closes a connection after this time without a call; a shard dials again when it next lists."""

CALLS: Final = ("Create", "Configure", "Drain", "Delete", "Get", "List")
"""The six calls; the first four change something and carry a fencing token."""


class OperationKind(StrEnum):
    """The operation that a mutating call starts; with the machine it is the idempotency key (`providers#idempotency-key`)."""

    CREATE = "create"
    CONFIGURE = "configure"
    DRAIN = "drain"
    DELETE = "delete"

    @property
    def call(self) -> str:
        """The call's name on the wire."""
        return self.value.capitalize()


@dataclass(frozen=True, slots=True)
class Edge:
    """The states of one operation: it starts in a stable state, passes a transitional one and ends in a stable one."""

    source: S
    during: S
    target: S


EDGES: Final = {
    OperationKind.CREATE: Edge(S.SPECULATIVE, S.CREATING, S.IDLE),
    OperationKind.CONFIGURE: Edge(S.IDLE, S.CONFIGURING, S.CONFIGURED),
    OperationKind.DRAIN: Edge(S.CONFIGURED, S.DRAINING, S.IDLE),
    OperationKind.DELETE: Edge(S.IDLE, S.DELETING, S.SPECULATIVE),
}
KIND_OF_TRANSITIONAL: Final = {edge.during: kind for kind, edge in EDGES.items()}

STATES: Final = tuple(state for state in S if state is not S.UNSPECIFIED)
BOUND_STATES: Final = frozenset({S.CONFIGURING, S.CONFIGURED, S.DRAINING})
"""The states that carry a cluster; a Failed machine keeps what it had."""

INT64_MAX: Final = 2**63 - 1
MAX_ID_BYTES: Final = 1024
"""Applies to machine, shard and cluster ids in a call."""
MAX_METADATA_BYTES: Final = 4 * 1024 * 1024
MAX_BLOB_BYTES: Final = 16 * 1024 * 1024
MAX_GRACE_S: Final = 30 * 24 * 3600
MAX_ERROR_BYTES: Final = 1024
MAX_UNKNOWN_MARKS: Final = 100_000
MAX_FURTHER_MARKS: Final = 1_000_000
MAX_SHARD_EPOCHS: Final = 10_000
MAX_EPOCH_STEP: Final = 2**32
"""How far one token may raise the epoch of a shard that announces exclusive epochs. An epoch counts the starts of a shard: this
is one each second for 136 years. A caller that numbers starts by the Unix time in seconds stays below it until 2106."""
LEAST_SEQUENCE: Final = -INT64_MAX - 1

STOCKOUT_PREFIX: Final = "stockout:"
REMOVED_PREFIX: Final = "removed:"
REMOVED_LABEL: Final = "bigfleet.lucy.sh/removed"
INTERRUPTED: Final = "interrupted by restart"

FORBIDDEN_LABELS: Final = frozenset(
    {
        "instance-type",
        "instance_type",
        "instanceType",
        "zone",
        "availability-zone",
        "availability_zone",
        "capacity-type",
        "capacity_type",
        "capacityType",
    }
)
"""Keys that repeat a field of the record and could contradict it."""
