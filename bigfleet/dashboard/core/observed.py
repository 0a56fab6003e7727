"""The picture of the fleet: an immutable value that each round of polling replaces.

Why: pages, the state word and the event log use the same picture, so they cannot contradict each other. It distinguishes
"not answered" from "empty".
Must never: hold a message of the wire, or a number for an unknown value (None is unknown).
Rules: `dashboard#first-screen`, `dashboard#sources`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bigfleet.model.resources import ZERO, Resources


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
class ObservedCoverage:
    """Machines of one or more needs, by how far they are (`dashboard#need-parts`)."""

    running: int = 0
    joining: int = 0
    on_order: int = 0
    wanted: int = 0
    missing: Resources = ZERO
    """What running, joining and on order leave of the demand."""

    def __add__(self, other: "ObservedCoverage") -> "ObservedCoverage":
        return ObservedCoverage(
            self.running + other.running,
            self.joining + other.joining,
            self.on_order + other.on_order,
            self.wanted + other.wanted,
            self.missing + other.missing,
        )


def added_up(parts: Iterable[ObservedCoverage | None]) -> ObservedCoverage | None:
    """Return the sum of coverages; None when one is unknown, or there is none."""
    total: ObservedCoverage | None = None
    for part in parts:
        if part is None:
            return None
        total = part if total is None else total + part
    return total


@dataclass(frozen=True, slots=True)
class ObservedProvider:
    """A shard's provider, as the shard sees it; durations are the shard's own."""

    reachable: bool
    unreachable_for_s: float = 0.0
    last_error: str = ""
    next_probe_in_s: float = 0.0
    held_off_actions: int = 0
    listing_age_s: float | None = None
    """None when the provider was never listed."""
    doubted_for_s: float | None = None
    """None when the last listing is believed."""
    doubted_missing: int = 0


@dataclass(frozen=True, slots=True)
class ObservedProblem:
    """Something that a shard says is wrong."""

    kind: str
    text: str
    for_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ObservedCoolOff:
    """An offering that is out of stock."""

    instance_type: str
    zone: str
    capacity_type: str
    error: str
    failures: int
    next_attempt_in_s: float
    machines: int

    @property
    def offering(self) -> str:
        """Its name in a sentence."""
        return f"{self.instance_type} {self.capacity_type} in {self.zone}"


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
    coverage: ObservedCoverage | None = None


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
    provider: ObservedProvider | None = None
    """None for a shard that does not report it."""
    problems: tuple[ObservedProblem, ...] = ()
    cool_offs: tuple[ObservedCoolOff, ...] = ()
    needs_covered: int | None = None
    """Needs that machines cover which run, join or are on order; None for a shard that does not count them."""
    coverage: ObservedCoverage | None = None

    @property
    def uncovered(self) -> int:
        """Needs that are not covered; for a shard that does not count them, those that its decision left short."""
        return self.needs_short if self.needs_covered is None else self.needs - self.needs_covered


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
    cycle_at: float | None = None
    """When its last cycle ended, by this host's clock: a shard's clock may differ. None before the first cycle."""


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

    def may_know(self, cluster: str) -> bool:
        """Whether a shard has seen a cluster, or one that has not answered might have."""
        return not self.shards or any(
            place.seen is None
            or not place.seen.insight
            or any(row.cluster == cluster for row in place.seen.clusters)
            for place in self.shards
        )
