"""The status of a shard besides its last cycle, from the parts of its process that know it.

Why: coordinator client, counters and sessions are not part of a decision, so no view holds them. The insight service gets
functions, and never sees where the values come from.
Rules: `dashboard#first-screen`, `dashboard#insight-service`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bigfleet.model.machine import MachineState


@dataclass(frozen=True, slots=True)
class CoordinatorLinkStatus:
    """The status of the connection to the coordinator."""

    address: str
    last_answer_ns: int = 0
    last_answer_age_s: float = 0.0
    failures: int = 0
    last_error: str = ""
    term: int = 0
    reports: int = 0
    restarts: int = 0


async def _no_states(_machine_ids: Sequence[str]) -> Mapping[str, MachineState | None]:
    return {}


@dataclass(frozen=True, slots=True)
class StatusSources:
    """Functions that are called for every status answer; defaults are left out of it."""

    version: str = ""
    cycle_interval_s: float = 0.0
    actuation_paused: bool = False
    """Paused by the kill switch, not by the shard itself."""
    coordinator: Callable[[], CoordinatorLinkStatus | None] = lambda: None
    last_reconcile_ns: Callable[[], int] = lambda: 0
    rollup_accepted_ns: Callable[[str], int] = lambda _cluster: 0
    """When the roll-up of a cluster that counts was accepted, in steady time; 0 for none."""
    held_rollups: Callable[[str], int] = lambda _cluster: 0
    """Roll-ups of a cluster held in a row."""
    is_pending: Callable[[str], bool] = lambda _machine_id: False
    """Whether an action of a machine is queued or in flight."""
    totals: Callable[[], Mapping[str, int]] = field(default=dict)
    """Counters by name, as `reclaims_capped`."""
    live_states: Callable[[Sequence[str]], Awaitable[Mapping[str, MachineState | None]]] = _no_states
    """The present states of some machines; None for one that is gone. What is left out is as in the last cycle."""
    now_s: Callable[[], float] | None = None
    """The present time on the clock of `CycleView.now`."""
    self_pause: Callable[[], str] = lambda: ""
    """Why the shard paused itself; empty when it did not."""
    audit_lost: Callable[[], str] = lambda: ""
    """What is wrong with the audit log; empty while it can be written."""

    def now(self, otherwise: float) -> float:
        """The present time, or the one given where no clock is known."""
        return otherwise if self.now_s is None else self.now_s()
