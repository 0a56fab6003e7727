"""What readers of a shard may see: its standing, and the last cycle as one immutable value.

Why: inspection, the insight service, dashboards and the coordinator client must never change, delay or see half of a
cycle. The cycle loop swaps in one `CycleView` when it is done; who holds one may read it as long as he likes.
Must never: hold anything that a later cycle changes, or a Python object per machine. Verdicts and machine records are
made when somebody looks; a reader that walks all of them does so in slices or off the event loop.
Rules: shard 19 and 2, dashboard 8, coordinator 5.2.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from bigfleet.model.action import Action
from bigfleet.model.decision import Decision
from bigfleet.model.demand import Demand
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.profile import Profile
from bigfleet.model.resources import ZERO, Resources
from bigfleet.model.situation import GangRef, IdleHolds


@dataclass(frozen=True, slots=True)
class AgedShortfall:
    """Demand of one fingerprint, over all clusters and groups, that a cycle could not meet."""

    profile: Profile
    deficit: Resources
    age_cycles: int
    """Consecutive cycles unresolved, from 1; more than 5 is the mark at which a coordinator acts."""
    min_unit: Resources = ZERO


@dataclass(frozen=True, slots=True)
class BootstrapBackoff:
    """A profile of a cluster whose bootstrap blob failed, so that nothing is acquired for it at present (decision S4)."""

    error: str
    until_s: float
    """Of the same time as `CycleView.now`."""


@dataclass(frozen=True, slots=True)
class CycleFacts:
    """What one cycle did and how long it took."""

    duration_s: float = 0.0
    phases_s: Mapping[str, float] = field(default_factory=dict)
    """By the names of `bigfleet_shard_cycle_phase_duration_seconds`."""
    reconciled: bool = False
    """Whether a listing of the provider was applied in it."""
    dispatched: tuple[Action, ...] = ()
    """Actions that were queued; those left out by rails, cap, hold-off, queue or pending set are not among them."""
    capped: int = 0
    deferred: int = 0
    held_off: int = 0
    suppressed: int = 0


@dataclass(frozen=True, slots=True, weakref_slot=True)
class CycleView:
    """One cycle: what was decided on, what was decided, and what the ledgers said after it."""

    number: int
    """Counted from 1."""
    computed_at_ns: int
    """Nanoseconds since 1970."""
    now: float
    """The `now` of the decision in seconds since 1970 (decision S22)."""
    snapshot: InventorySnapshot
    demand: Demand
    decision: Decision
    """Its verdicts are in list order: priority descending, arrival, cluster; `Unresolved.need` is a place in them."""
    parked: frozenset[GangRef]
    """Gangs whose acquisition was parked in this cycle."""
    parked_ages: Mapping[GangRef, int]
    """Age of each gang in the parking ledger after this cycle, parked or on its way to it."""
    unmet_ages: Mapping[str, int]
    """Age in the shortfall ledger by fingerprint."""
    shortfalls: tuple[AgedShortfall, ...]
    """The whole ledger in the order of reports: priority and age descending, then fingerprint; reports stop at 100."""
    held_off: Mapping[tuple[str, str], BootstrapBackoff]
    """By cluster and fingerprint."""
    reported_clusters: frozenset[str]
    """Clusters that have sent a roll-up since the start; from the others nothing is reclaimed."""
    sessions: frozenset[str]
    """Clusters with an operator connected when the cycle ended."""
    holds: IdleHolds
    facts: CycleFacts = CycleFacts()


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """How the shard stands at this moment; cheap to make."""

    shard_id: str
    epoch: int
    advertise_address: str
    provider_address: str
    """Empty when the provider is the fake inside this process (decision S24)."""
    started_at_ns: int
    cycle: int
    """Cycles begun since the start."""
    ready: bool
    not_ready: tuple[str, ...]
    """Why not, a line each."""
    remarks: tuple[str, ...]
    """What an operator should know although the shard is ready: in-process fake, audit records lost, dry run."""
    paused: bool
    """The kill switch, the shard's own pause after being fenced, or a strict audit that cannot be written."""
    dry_run: bool
    sessions: int
    queued: int
    in_flight: int


class ShardViews(Protocol):
    """All that a reader is given."""

    def last_cycle(self) -> CycleView | None:
        """The last complete cycle; None before the first."""

    def status(self) -> ShardStatus:
        """How the shard stands now."""


class TermMark:
    """The highest coordinator term seen: raised by the coordinator client, told to operators in acknowledgements."""

    def __init__(self) -> None:
        self.value = 0

    def raise_to(self, term: int) -> None:
        """Note a term; a lower one changes nothing."""
        self.value = max(self.value, term)
