"""The frames between a shard and an operator, as values.

Why: the operator's rules are about these facts and not about messages; `bigfleet.wire.operator_frames` makes one of the other.
Must never: hold a message, or a default that reads as consent: an absent addition is empty, as from an old shard.
Rules: `wire#session`, `wire#additions`, `shard#resync`, `shard#reclaim-instruction`, `shard#own-additions`.
"""

from dataclasses import dataclass, field
from typing import Final

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import MachineState
from bigfleet.model.profile import Requirement

PODS_FEATURE: Final = "pods"
"""A shard with it counts room for pods on every machine, so a need may name the resource `pods`."""


@dataclass(frozen=True, slots=True)
class ShardAck:
    """The shard took a frame, or has sent everything it knows (`resync`)."""

    echo: str
    coordinator_term: int = 0
    shard_epoch: int = 0
    problem: str = ""
    """Why a roll-up was refused."""
    features: frozenset[str] = frozenset()
    """Which additions to demand the shard understands, in the answer to Hello."""


@dataclass(frozen=True, slots=True)
class BlobRequest:
    """The shard wants what a machine needs to join; the words of the operators are those of the template."""

    request_id: str
    requirements: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    machine_id: str = ""


@dataclass(frozen=True, slots=True)
class ReclaimTarget:
    """All names of one machine that is to be drained; what is not known is empty."""

    entry: str
    machine_id: str = ""
    provider_id: str = ""
    node_name: str = ""

    @property
    def machine(self) -> str:
        """The machine that this is about, as far as the instruction names it."""
        return self.machine_id or self.entry


@dataclass(frozen=True, slots=True)
class ReclaimOrder:
    """The shard wants nodes to be emptied."""

    instruction_id: str
    targets: tuple[ReclaimTarget, ...]
    grace_s: int = 0
    preemptor_priority: int = 0


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint that a node registers with."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeStateUpdate:
    """The state of a machine of the cluster; amounts are the texts as sent, for readers of the cluster."""

    machine_id: str
    state: MachineState
    node_name: str = ""
    provider_id: str = ""
    last_error: str = ""
    labels: FrozenMap[str] = field(default_factory=FrozenMap)
    resources: FrozenMap[str] = field(default_factory=FrozenMap)
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class CapacityHint:
    """The supply that a profile could get; advice only."""

    key: str
    requirements: tuple[Requirement, ...] = ()
    resources: FrozenMap[str] = field(default_factory=FrozenMap)
    available: int = 0
    confidence: str = "None"
    cost_per_hour: float = 0.0


@dataclass(frozen=True, slots=True)
class BlobAnswer:
    """What a machine needs to join, or why it is not available."""

    request_id: str
    user_data: bytes = field(default=b"", repr=False)  # join credentials: never in a log
    ttl_s: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class ReclaimAck:
    """So many of the nodes of an instruction are cordoned."""

    instruction_id: str
    nodes_started: int


ShardFrame = ShardAck | BlobRequest | ReclaimOrder | NodeStateUpdate | CapacityHint
