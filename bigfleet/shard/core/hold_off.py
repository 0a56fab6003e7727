"""Which decided actions are not started now, and the demand that stays unmet without them.

Why: the engine decides as if every call would be answered. What cannot be carried out at present must not be tried in every
cycle, and must not look as if it had been done.
Must never: add or reorder actions; or hold one without a reason that readers see.
Rules: `shard#hold-off`, `shard#provider-standing`, `shard#blob-back-off`, `shard#session-missing`,
`shard#machine-back-off`, `shard#shortfalls`; ADR-0193.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bigfleet.model.action import Action, ActionKind
from bigfleet.model.decision import Decision
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.resources import ZERO
from bigfleet.shard.core.bootstrap_backoff import BootstrapBackoffs
from bigfleet.shard.core.machine_backoffs import MachineBackoffs
from bigfleet.shard.core.pending_action import ACQUIRES
from bigfleet.shard.core.shortfalls import Unmet
from bigfleet.shard.core.views import HoldOff

_FOR_A_NEED = ACQUIRES | {ActionKind.PREEMPT}
_STEPS_OF_A_SEARCH = 20  # of half a million ids


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldOffRules:
    """What keeps actions from being started in one cycle."""

    provider_reachable: bool
    sessions: frozenset[str] | None
    """Clusters with an operator connected; None if blobs come from elsewhere."""
    blobs: BootstrapBackoffs
    machines: MachineBackoffs
    now: float
    settled: bool = True
    """Whether the shard knows which machines of its provider are its own."""

    def reason(self, action: Action) -> HoldOff | None:
        """Why an action is not started now; None if it is. An admitted attempt counts as the next one of its back-off."""
        if not self.settled:
            return HoldOff.OWNERSHIP_UNSETTLED
        if not self.provider_reachable:
            return HoldOff.PROVIDER_UNREACHABLE
        if self.machines.holds(action.machine_id, self.now):
            return HoldOff.MACHINE_BACK_OFF
        if action.kind not in ACQUIRES or action.cluster is None:
            return None
        if self.sessions is not None and action.cluster not in self.sessions:
            return HoldOff.NO_SESSION
        if not self.blobs.admits(action.cluster, action.fingerprint or "", self.now):
            return HoldOff.BLOB_BACK_OFF
        return None


@dataclass(frozen=True, slots=True)
class HeldActions:
    """The actions of one decision, those held off apart."""

    admitted: Sequence[Action]
    counts: Mapping[HoldOff, int] = field(default_factory=dict)
    """Actions held off by reason."""
    by_need: Mapping[int, HoldOff] = field(default_factory=dict)
    """The first reason for each need whose acquisitions or preemptions were held off, by its place."""
    unmet: tuple[Unmet, ...] = ()

    @property
    def held(self) -> int:
        return sum(self.counts.values())


def hold_off(decision: Decision, snapshot: InventorySnapshot, rules: HoldOffRules) -> HeldActions:
    """The actions to start, and what is held off."""
    kept: list[Action] = []
    counts: Counter[HoldOff] = Counter()
    by_need: dict[int, HoldOff] = {}
    withheld: dict[int, list[str]] = {}
    for action in decision.actions:
        reason = rules.reason(action)
        if reason is None:
            kept.append(action)
            continue
        counts[reason] += 1
        if action.need is not None and action.kind in _FOR_A_NEED:
            by_need.setdefault(action.need, reason)
            withheld.setdefault(action.need, []).append(action.machine_id)
    if not counts:
        return HeldActions(decision.actions)
    return HeldActions(kept, counts, by_need, unmet_without(decision, snapshot, withheld))


def unmet_without(
    decision: Decision, snapshot: InventorySnapshot, withheld: Mapping[int, Iterable[str]]
) -> tuple[Unmet, ...]:
    """What needs lack without some machines, by place of the need."""
    rows = _rows(snapshot, [machine_id for ids in withheld.values() for machine_id in ids])
    shapes = snapshot.columns["shape"]
    found = []
    for place, machine_ids in withheld.items():
        need = decision.verdicts[place].need
        offered = ZERO
        for machine_id in machine_ids:
            row = rows.get(machine_id)
            if row is not None:
                offered = offered + need.counted(snapshot.shapes[int(shapes[row])])
        found.append(Unmet(need, need.total - (need.total - offered)))
    return tuple(found)


def _rows(snapshot: InventorySnapshot, machine_ids: Sequence[str]) -> dict[str, int]:
    """The rows of machines by id."""
    if len(machine_ids) * _STEPS_OF_A_SEARCH < len(snapshot):
        searched = ((machine_id, snapshot.row_of(machine_id)) for machine_id in machine_ids)
        return {machine_id: row for machine_id, row in searched if row is not None}
    wanted, rows = frozenset(machine_ids), snapshot.id_order
    every = zip(snapshot.ids.many(rows), rows.tolist(), strict=True)
    return {machine_id: row for machine_id, row in every if machine_id in wanted and machine_id is not None}
