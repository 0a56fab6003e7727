"""The contract between shard and provider as data: six calls, four edges, the limits.

Why: kit, client, fake and conformance kit must not each have an opinion of their own on what Create leads to.
Must never: import a message, a transport or a clock.
Rules: providers 1.2 to 1.9.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bigfleet.model.machine import MachineState as S

SERVICE: Final = "bigfleet.v1alpha1.CapacityProvider"
DEFAULT_PORT: Final = 9000
IDLE_CONNECTION_S: Final = 900.0
"""After so long without a call a connection is closed; a shard dials again when it next lists."""

CALLS: Final = ("Create", "Configure", "Drain", "Delete", "Get", "List")
"""The six calls; the first four change something and carry a fencing token."""


class OperationKind(StrEnum):
    """What a mutating call sets going; with the machine it is the key of idempotency (decision P2)."""

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
    """The one way an operation takes: from a stable state through a transitional one to a stable one."""

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
"""Of machine, shard and cluster ids in a call; nobody's memory is filled by a long name."""
MAX_METADATA_BYTES: Final = 4 * 1024 * 1024
MAX_BLOB_BYTES: Final = 16 * 1024 * 1024
MAX_GRACE_S: Final = 30 * 24 * 3600
MAX_ERROR_BYTES: Final = 1024
MAX_UNKNOWN_MARKS: Final = 100_000
MAX_FURTHER_MARKS: Final = 1_000_000

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
"""What they would say has a field of its own, and a second answer could differ from the first."""
