"""Since when needs have wanted machines without the provider accepting any.

Why: the engine credits a need with machines on order, be they accepted or not, so a call that hangs or is tried in vain
looks like coverage. People and the shortfall metric must see it.
Must never: hold a need that no longer wants machines.
Rules: `shard#not-accepted`, `shard#shortfalls`; ADR-0215.
"""

from collections.abc import Iterable, Mapping

from bigfleet.engine.verdicts import needs_of
from bigfleet.model.decision import Decision
from bigfleet.model.need import Need, NeedKey
from bigfleet.shard.core.pending_action import ACQUIRES, PendingAction


class WaitingNeeds:
    """The needs that wait, by name; times are of the clock of the decisions."""

    def __init__(self) -> None:
        self._since: dict[NeedKey, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    def accepted(self, need: Need | None) -> None:
        """The provider accepted a call for a need: what is still wanted begins to wait now."""
        if need is not None:
            self._since.pop(need.key, None)

    def decided(self, wanted: Iterable[NeedKey], now: float) -> Mapping[NeedKey, float]:
        """Note which needs want machines in this cycle; return since when."""
        self._since = {key: self._since.get(key, now) for key in wanted}
        return self._since


def wanted_machines(decision: Decision, awaited: Mapping[str, PendingAction]) -> dict[int, dict[str, None]]:
    """The machines that needs want and the provider has not accepted, by place of the need, in a fixed order.

    `awaited` are actions that the provider has not answered, by machine; of those whose need is gone nothing is wanted.
    """
    found: dict[int, dict[str, None]] = {}
    for action in decision.actions:
        if action.kind in ACQUIRES and action.need is not None:
            found.setdefault(action.need, {})[action.machine_id] = None
    waiting = _by_need(awaited)
    if waiting:
        clusters = {key[0] for key in waiting}
        for place, need in enumerate(needs_of(decision.verdicts)):
            if need.cluster in clusters and (machine_ids := waiting.get(need.key)):
                found.setdefault(place, {}).update(machine_ids)
    return dict(sorted(found.items()))


def _by_need(awaited: Mapping[str, PendingAction]) -> dict[NeedKey, dict[str, None]]:
    found: dict[NeedKey, dict[str, None]] = {}
    for machine_id, pending in awaited.items():
        if pending.need is not None:
            found.setdefault(pending.need.key, {})[machine_id] = None
    return found
