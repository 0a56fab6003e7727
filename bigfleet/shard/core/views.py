"""What readers of a shard see: its status, and the last cycle as one immutable value.

Why: readers must never change, delay or see half of a cycle. The cycle loop publishes one `CycleView` at the end of a
cycle; a reader may keep it for as long as it likes.
Must never: hold anything that a later cycle changes, or a Python object per machine. Verdicts and machine records are
made on access; a reader that walks all of them does so in slices or off the event loop.
Rules: `shard#inspection`, `shard#memory`, `dashboard#insight-service`, `coordinator#shard-client`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from bigfleet.model.action import Action
from bigfleet.model.decision import Decision
from bigfleet.model.demand import Demand
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.machine import CapacityType, MachineState
from bigfleet.model.profile import Profile
from bigfleet.model.resources import ZERO, Resources
from bigfleet.model.situation import GangRef, IdleHolds
from bigfleet.model.times import NANOSECONDS


@dataclass(frozen=True, slots=True)
class AgedShortfall:
    """Demand of one fingerprint, over all clusters and groups, that a cycle could not meet."""

    profile: Profile
    deficit: Resources
    age_cycles: int
    """Consecutive unresolved cycles, from 1; the coordinator acts above 5."""
    min_unit: Resources = ZERO


@dataclass(frozen=True, slots=True)
class BootstrapBackoff:
    """The back-off of a profile of a cluster whose bootstrap blob failed (`shard#blob-back-off`)."""

    error: str
    until_s: float
    """On the same clock as `CycleView.now`."""


class HoldOff(StrEnum):
    """Why the shard does not start an action that it decided."""

    PROVIDER_UNREACHABLE = "provider-unreachable"
    BLOB_BACK_OFF = "blob-back-off"
    NO_SESSION = "no-session"
    MACHINE_BACK_OFF = "machine-back-off"
    OWNERSHIP_UNSETTLED = "ownership-unsettled"


@dataclass(frozen=True, slots=True)
class ProviderHealth:
    """The provider as the shard sees it at one moment (`shard#provider-standing`, `shard#listing-guard`)."""

    reachable: bool = True
    unreachable_for_s: float = 0.0
    failures: int = 0
    """Calls in a row that failed on the way to or from the provider."""
    last_error: str = ""
    next_probe_in_s: float = 0.0
    last_listing_age_s: float | None = None
    """None when the provider was never listed."""
    doubted_for_s: float | None = None
    """For how long full listings have lacked too many machines; None when the last one did not."""
    doubted_missing: int = 0


@dataclass(frozen=True, slots=True)
class OfferingCoolOff:
    """An offering that is out of stock (`shard#offering-cool-off`)."""

    instance_type: str
    zone: str
    capacity_type: CapacityType
    error: str
    failures: int
    """Failed attempts in a row."""
    until_s: float
    """When the next attempt is allowed, on the same clock as `CycleView.now`."""
    machines: int = 0
    """Speculative machines that the decision of this cycle left out."""


@dataclass(frozen=True, slots=True)
class MachineBackoff:
    """A machine whose last action failed (`shard#machine-back-off`)."""

    error: str
    until_s: float
    """On the same clock as `CycleView.now`."""


@dataclass(frozen=True, slots=True)
class CycleFacts:
    """What one cycle did, and how long it took."""

    duration_s: float = 0.0
    phases_s: Mapping[str, float] = field(default_factory=dict)
    """By the names of `bigfleet_shard_cycle_phase_duration_seconds`."""
    reconciled: bool = False
    """Whether it applied a listing of the provider."""
    dispatched: tuple[Action, ...] = ()
    """The actions that were queued; rails, back-off, queue and pending set left out the others."""
    capped: int = 0
    deferred: int = 0
    backed_off: int = 0
    suppressed: int = 0


@dataclass(frozen=True, slots=True, weakref_slot=True)
class CycleView:
    """One cycle: its input, its decision, and the ledgers after it."""

    number: int
    """Counted from 1."""
    computed_at_ns: int
    """Nanoseconds since 1970."""
    now: float
    """The `now` of the decision in seconds since 1970 (`shard#steady-time`)."""
    snapshot: InventorySnapshot
    """The machines on which the engine decided: all but Speculative ones of offerings in cool-off."""
    demand: Demand
    decision: Decision
    """Its verdicts are in list order: priority descending, arrival, cluster; `Unresolved.need` is a place in them."""
    parked: frozenset[GangRef]
    """Gangs whose acquisition was parked in this cycle."""
    parked_ages: Mapping[GangRef, int]
    """Age of each gang in the parking ledger after this cycle, parked or not."""
    unmet_ages: Mapping[str, int]
    """Age in the shortfall ledger by fingerprint."""
    shortfalls: tuple[AgedShortfall, ...]
    """The whole ledger in report order: priority and age descending, then fingerprint."""
    bootstrap_backoffs: Mapping[tuple[str, str], BootstrapBackoff]
    """By cluster and fingerprint."""
    reported_clusters: frozenset[str]
    """Clusters that have sent a roll-up since the start; nothing is reclaimed from the others."""
    sessions: frozenset[str]
    """Clusters with an operator connected when the cycle ended."""
    holds: IdleHolds
    facts: CycleFacts = CycleFacts()
    inventory: InventorySnapshot | None = None
    """All machines, if `snapshot` leaves some out; rows have the same numbers in both."""
    cool_offs: tuple[OfferingCoolOff, ...] = ()
    """By instance type, zone and capacity type."""
    machine_backoffs: Mapping[str, MachineBackoff] = field(default_factory=dict)
    """By machine id."""
    held_off: Mapping[int, HoldOff] = field(default_factory=dict)
    """Why acquisitions of a need were not started, by its place in the verdicts; the first reason in list order of actions."""
    waiting_since_s: Mapping[int, float] = field(default_factory=dict)
    """Since when a need has wanted machines and none was accepted, by its place; on the clock of `now`."""

    @property
    def every_machine(self) -> InventorySnapshot:
        """All machines, those that the decision left out included."""
        return self.snapshot if self.inventory is None else self.inventory


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """The present status of the shard; cheap to make."""

    shard_id: str
    epoch: int
    advertise_address: str
    provider_address: str
    """Empty when the provider is the fake inside this process (`shard#in-process-fake`)."""
    started_at_ns: int
    cycle: int
    """Cycles begun since the start."""
    ready: bool
    not_ready: tuple[str, ...]
    """Why not, one line per reason."""
    remarks: tuple[str, ...]
    """Warnings for people although the shard is ready: in-process fake, lost audit records, dry run."""
    paused: bool
    """By the kill switch, by the shard itself after being fenced, or by a strict audit that cannot be written."""
    dry_run: bool
    sessions: int
    queued: int
    in_flight: int
    provider: ProviderHealth = ProviderHealth()
    partition_key: str = ""
    """The label key by which the shard shares its provider; empty if it owns all machines of its provider."""
    now_ns: int = 0
    """When this was read, by the same clock as the other times, so that their difference is an age."""

    def age_s(self, at_ns: int) -> float:
        """How long ago that was, never less than 0; 0 for a time that is 0, which means never."""
        return max(self.now_ns - at_ns, 0) / 1e9 if at_ns else 0.0


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change of state that an action made."""

    machine_id: str
    before: MachineState
    after: MachineState
    at_s: float
    """On the clock of `CycleView.now`."""

    @property
    def at_ns(self) -> int:
        return int(self.at_s * NANOSECONDS)


class ShardViews(Protocol):
    """The interface of a shard for readers."""

    def last_cycle(self) -> CycleView | None:
        """The last complete cycle; None before the first."""

    async def cycle_after(self, seen: CycleView | None) -> CycleView:
        """Wait for a cycle other than the one seen, and return the last one."""
        ...

    def status(self) -> ShardStatus:
        """The present status."""

    def is_accepted(self, machine_id: str) -> bool:
        """Whether the provider has acknowledged the last call for the machine, or listed its result."""

    def take_changes(self, until_s: float) -> list[StateChange]:
        """The changes that actions made until a moment, oldest first; each is returned once."""


class TermMark:
    """The highest coordinator term seen; the coordinator client raises it, acknowledgements carry it to operators."""

    def __init__(self) -> None:
        self.value = 0

    def raise_to(self, term: int) -> None:
        """Raise the term; a lower one changes nothing."""
        self.value = max(self.value, term)
