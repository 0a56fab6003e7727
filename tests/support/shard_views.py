"""Views of a shard without a shard: a situation is decided on and shown as a cycle.

Why: whatever reads a shard can be tested on any situation that a test can write down, in one line.
Must never: differ in form from what the cycle loop swaps in.

    shard = StaticShard()
    shard.complete(Situation(now=0.0, machines=(machine("m-1"),), needs=(need,)))
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bigfleet.engine.cycle import decide
from bigfleet.model.demand import Demand
from bigfleet.model.inventory import Inventory
from bigfleet.model.situation import Situation
from bigfleet.shard.core.views import AgedShortfall, CycleView, ShardStatus, StateChange

_FIRST_CYCLE_NS = 1_893_456_000 * 1_000_000_000


def cycle_of(situation: Situation, number: int = 1, **given: Any) -> CycleView:  # Any: fields of the view
    """A completed cycle on a situation; what the ledgers would say can be given, else a first cycle is assumed."""
    inventory = Inventory()
    for machine in situation.machines:
        inventory.insert(machine, None)
    snapshot = inventory.snapshot()
    reported = situation.reported_clusters
    decision = decide(
        snapshot,
        situation.needs,
        parked=situation.parked,
        reported_clusters=reported,
        holds=situation.holds,
        now=situation.now,
    )
    unmet: dict[str, AgedShortfall] = {}
    for left in decision.unresolved:
        need = decision.verdicts[left.need].need
        known = unmet.get(need.profile.fingerprint)
        deficit = left.deficit if known is None else known.deficit + left.deficit
        unmet[need.profile.fingerprint] = AgedShortfall(need.profile, deficit, 1, need.unit)
    fields: dict[str, Any] = {
        "number": number,
        "computed_at_ns": _FIRST_CYCLE_NS + number * 10_000_000_000,
        "now": situation.now,
        "snapshot": snapshot,
        "demand": Demand.listed(situation.needs),
        "decision": decision,
        "parked": situation.parked,
        "parked_ages": dict.fromkeys(situation.parked, 9),
        "unmet_ages": {fingerprint: item.age_cycles for fingerprint, item in unmet.items()},
        "shortfalls": tuple(
            sorted(unmet.values(), key=lambda item: (-item.profile.priority, item.profile.fingerprint))
        ),
        "bootstrap_backoffs": {},
        "reported_clusters": reported
        if reported is not None
        else frozenset(need.cluster for need in situation.needs),
        "sessions": frozenset(need.cluster for need in situation.needs),
        "holds": situation.holds,
    }
    return CycleView(**(fields | given))


class StaticShard:
    """A shard with fixed views and no process; see `bigfleet.shard.core.views.ShardViews`."""

    def __init__(self, shard_id: str = "shard-0", **given: Any) -> None:  # Any: fields of the status
        fields: Mapping[str, Any] = {
            "shard_id": shard_id,
            "epoch": 3,
            "advertise_address": f"{shard_id}.example:7780",
            "provider_address": "provider.example:9000",
            "started_at_ns": _FIRST_CYCLE_NS,
            "cycle": 0,
            "ready": True,
            "not_ready": (),
            "remarks": (),
            "paused": False,
            "dry_run": False,
            "sessions": 0,
            "queued": 0,
            "in_flight": 0,
        }
        self._status = ShardStatus(**(dict(fields) | given))
        self._cycle: CycleView | None = None
        self._newer = asyncio.Event()

    def complete(self, situation: Situation, **given: Any) -> CycleView:  # Any: fields of the view
        """Complete one more cycle, on this situation."""
        number = 1 if self._cycle is None else self._cycle.number + 1
        view = cycle_of(situation, **({"number": number} | given))
        self.show(view)
        return view

    def show(self, view: CycleView) -> None:
        """Show a cycle that was made elsewhere."""
        self._cycle = view
        newer, self._newer = self._newer, asyncio.Event()
        newer.set()

    async def cycle_after(self, seen: CycleView | None) -> CycleView:
        while self._cycle is None or self._cycle is seen:
            await self._newer.wait()
        return self._cycle

    def is_accepted(self, machine_id: str) -> bool:
        """Every call of a static shard is acknowledged."""
        return bool(machine_id)

    def take_changes(self, until_s: float) -> list[StateChange]:
        """No action changes a machine of a static shard."""
        return []

    def stand(self, **changed: Any) -> None:  # Any: fields of the status
        """Change fields of the status."""
        self._status = replace(self._status, **changed)

    def last_cycle(self) -> CycleView | None:
        return self._cycle

    def status(self) -> ShardStatus:
        number = 0 if self._cycle is None else self._cycle.number
        return replace(self._status, cycle=max(number, self._status.cycle))
