"""The picture of the fleet: an immutable value that each round of polling replaces.

Why: pages, the state word and the event log use the same picture, so they cannot contradict each other. It distinguishes
"not answered" from "empty".
Must never: hold a message of the wire, or a number for an unknown value (None is unknown).
Rules: `dashboard#first-screen`, `dashboard#sources`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MachineCount:
    """Machines of one state and capacity type."""

    state: str
    capacity_type: str
    count: int
    price_per_hour: float
    exposure_per_hour: float
    pinned_at_risk: int


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """A cluster as one shard sees it."""

    cluster: str
    connected: bool
    rollup_accepted: float
    rows: int
    held_rollups: int
    reported: bool
    machines: int
    price_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class CoordinatorLinkState:
    """A shard's link to its coordinator."""

    address: str
    last_answer: float
    failures: int
    last_error: str
    term: int


@dataclass(frozen=True, slots=True)
class ObservedShard:
    """The last status that a shard reported."""

    shard_id: str
    cycle: int
    computed_at: float
    """By this host's clock, as are all times here."""
    epoch: int
    version: str = ""
    started_at: float = 0.0
    ready: bool = True
    notes: tuple[str, ...] = ()
    actuation_paused: bool = False
    dry_run: bool = False
    self_paused: bool = False
    provider_address: str = ""
    last_reconcile: float = 0.0
    coordinator: CoordinatorLinkState | None = None
    machines: tuple[MachineCount, ...] = ()
    clusters: tuple[ObservedCluster, ...] = ()
    queue_depth: int = 0
    in_flight: int = 0
    needs: int = 0
    needs_short: int = 0
    shortfalls: int = 0
    totals: Mapping[str, int] = field(default_factory=dict)
    cycle_interval_s: float = 10.0
    clock_ahead_s: float = 0.0
    """How far the shard's clock is ahead of this host's; negative when it is behind."""
    insight: bool = True
    """False for a shard of the original, which reports nothing but its needs."""


@dataclass(frozen=True, slots=True)
class ObservedShortfall:
    """A profile that a shard cannot serve."""

    shard_id: str
    fingerprint: str
    priority: int
    priority_class: str
    deficit: Mapping[str, str]
    age_cycles: int
    bucket: str
    clusters: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ShardPlace:
    """A known shard, and how the last attempt to read it ended."""

    shard_id: str
    address: str
    asked_at: float
    answered_at: float | None
    """When it last answered; None if it never has."""
    error: str
    """Why the last attempt failed; empty when it did not."""
    seen: ObservedShard | None
    """The last answer, however old."""
    shortfalls: tuple[ObservedShortfall, ...] = ()


@dataclass(frozen=True, slots=True)
class ObservedReplica:
    """A coordinator replica, from the metadata of its answer."""

    address: str
    state: str
    membership: str
    last_term: int
    last_index: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class RegisteredShard:
    """A row of the coordinator's registry."""

    shard_id: str
    address: str
    registered_at: float
    last_heartbeat: float


@dataclass(frozen=True, slots=True)
class DomainRow:
    """A topology domain and its shard."""

    key: str
    value: str
    shard_id: str


@dataclass(frozen=True, slots=True)
class ObservedReport:
    """A shard's last report, as the coordinator keeps it."""

    shard_id: str
    cycle: int
    received_at_ns: int
    """By the coordinator's clock, as the original shows it."""
    received_at: float
    """By this host's clock."""
    total_machines: int = 0
    free_machines: int = 0
    per_instance_type: Mapping[str, int] = field(default_factory=dict)
    per_zone: Mapping[str, int] = field(default_factory=dict)
    provider_address: str = ""
    shortfalls: tuple[Mapping[str, object], ...] = ()
    """In the form of `/shard-reports`."""


@dataclass(frozen=True, slots=True)
class ObservedCoordinator:
    """The last successful answer of the serving replica."""

    registered: tuple[RegisteredShard, ...] = ()
    domains: tuple[DomainRow, ...] = ()
    reports: tuple[ObservedReport, ...] = ()
    replicas: tuple[ObservedReplica, ...] = ()


@dataclass(frozen=True, slots=True)
class CoordinatorPlace:
    """The coordinator, and how the last attempt to read it ended."""

    address: str
    asked_at: float
    answered_at: float | None
    error: str
    seen: ObservedCoordinator | None
    leaderless: bool = False
    """Whether the only problem is a pending election. Any other error needs action by an operator."""


@dataclass(frozen=True, slots=True)
class FleetPicture:
    """Everything known at one moment."""

    at: float
    shards: tuple[ShardPlace, ...] = ()
    coordinator: CoordinatorPlace | None = None
    """None when no coordinator is configured."""
    shards_wired: bool = False
    """Whether the dashboard can find shards: it has a shard's address or a coordinator."""

    def shard(self, shard_id: str) -> ShardPlace | None:
        """Return the shard with a name."""
        return next((place for place in self.shards if place.shard_id == shard_id), None)
