"""The report of a shard to the coordinator: coarse inventory, shortfalls, acks.

Why: it is the only steady-state call between the two, and both ends and the wire speak of the same thing.
Must never: carry single machines, except those of the exceptions a sharing shard holds.
Rules: `wire#reports`, `wire#additions`, `coordinator#soft-state`, `coordinator#domain-delivery`.
"""

from dataclasses import dataclass, field

from bigfleet.model.buckets import UNSPECIFIED, PenaltyBucket
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.instruction import Ack, Domain
from bigfleet.model.profile import Requirement
from bigfleet.model.resources import ZERO, Resources

MAX_SHORTFALLS = 100
"""What a report carries and the coordinator keeps at most, per shard."""
MAX_SHORTFALL_TEXT = 256 * 1024
"""Characters of all shortfalls of a report together; a report is sent every few seconds by every shard."""
MAX_COUNTED_NAMES = 1000
"""Instance types, and zones, that a report counts; those with the most machines."""


@dataclass(frozen=True, slots=True)
class ShardSummary:
    """Coarse inventory of a shard; the counts by type and zone are over all machines, free or not."""

    total_machines: int = 0
    free_machines: int = 0
    per_instance_type: FrozenMap[int] = field(default_factory=FrozenMap)
    per_zone: FrozenMap[int] = field(default_factory=FrozenMap)
    provider_address: str = ""
    partition_key: str = ""
    idle_machines: int = 0
    speculative_machines: int = 0
    instance_types_left_out: int = 0
    zones_left_out: int = 0


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A profile that a shard could not serve in full, the deficits of its gangs added up."""

    deficit: Resources = ZERO
    priority: int = 0
    age_cycles: int = 1
    interruption_bucket: PenaltyBucket = UNSPECIFIED
    requirements: tuple[Requirement, ...] = ()
    min_unit: Resources = ZERO


@dataclass(frozen=True, slots=True, order=True)
class MoveMark:
    """A machine that a shard holds or let go against its domains, with the number of the move."""

    machine_id: str
    move_seq: int


@dataclass(frozen=True, slots=True)
class OwnershipView:
    """What a shard that shares its provider holds."""

    domains: tuple[Domain, ...] = ()
    adopted: tuple[MoveMark, ...] = ()
    released: tuple[MoveMark, ...] = ()
    settled: bool = False
    leaving: tuple[Domain, ...] = ()
    """Those of `domains` that the shard lets go and still has machines in."""


@dataclass(frozen=True, slots=True)
class ShardReport:
    """The state of a shard; `cycle` counts the reports of one shard process from 1, `shard_epoch` its starts."""

    shard_id: str
    cycle: int = 0
    built_at_ns: int = 0
    shard_epoch: int = 0
    summary: ShardSummary | None = None
    shortfalls: tuple[Shortfall, ...] = ()
    acks: tuple[Ack, ...] = ()
    address: str = ""
    vanished_machine_ids: tuple[str, ...] = ()
    ownership: OwnershipView | None = None
    shortfalls_left_out: int = 0
