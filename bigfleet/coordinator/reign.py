"""What a leader knows under one term: soft state, instruction queue, deliveries. Born with the term, gone with it.

Why: whatever a handler holds on to across an await, it holds with the term it was captured under; so a leader deposed in
between neither stamps its successor's term nor revives what it heard in an earlier life.
Must never: be shared between two terms of one process.
Rules: coordinator 3, 5.3.
"""

from collections.abc import Callable, Iterable, Mapping

from bigfleet.coordinator.core.delivery import DomainDelivery
from bigfleet.coordinator.core.instructions import InstructionQueue
from bigfleet.coordinator.core.soft_state import Moment, SoftState
from bigfleet.coordinator.log import NotLeaderError, ReplicatedLog


class Reign:
    """One term in which this process serves."""

    def __init__(self, term: int, new_id: Callable[[], str], began: Moment) -> None:
        self.term, self.began = term, began
        self.soft = SoftState()
        self.queue = InstructionQueue(term, new_id)
        self.delivery = DomainDelivery(self.queue)
        self.first_report: Moment | None = None

    def forget(self, shard: str) -> None:
        """Drop everything about a shard, as it was removed."""
        self.soft.forget(shard)
        self.queue.forget(shard)
        self.delivery.forget(shard)

    def blockers(self, shards: Iterable[str], ghosts: Iterable[str], *, relearn: bool) -> list[str]:
        """Who keeps domains of shared providers from moving (8.3): unheard or unsettled shards, ghosts, re-learning."""
        states = {shard: self.soft.of(shard) for shard in shards}
        sharing = {
            shard
            for shard, state in states.items()
            if state is not None and state.summary is not None and state.summary.partition_key
        }
        found = [f"~{ghost}" for ghost in sorted(ghosts)]
        if sharing or found:
            for shard, state in sorted(states.items()):
                unsettled = state is not None and not (state.view is not None and state.view.settled)
                if state is None or state.reported is None or (shard in sharing and unsettled):
                    found.append(shard)
        return [*found, "relearn"] if relearn else found


class Throne:
    """Who reigns in this process: the reign of the serving term, or nobody."""

    def __init__(self, log: ReplicatedLog, new_id: Callable[[], str], now: Callable[[], Moment]) -> None:
        self._log, self._new_id, self._now = log, new_id, now
        self._reign: Reign | None = None
        log.on_serving(self._gained)
        log.on_lost(self._lost)

    @property
    def reign(self) -> Reign | None:
        """The reign that serves now; None on every other replica."""
        reign = self._reign
        return reign if reign is not None and self._log.serving() == reign.term else None

    def require(self, expected: Reign | None = None) -> Reign:
        """Return the reign that serves, the expected one if one was captured before; else `NotLeaderError`."""
        reign = self.reign
        if reign is None or (expected is not None and reign is not expected):
            raise NotLeaderError(self._log.status().leader)
        return reign

    def _gained(self, term: int) -> None:
        self._reign = Reign(term, self._new_id, self._now())

    def _lost(self) -> None:
        self._reign = None


def pairs_of(owned: Mapping[tuple[str, str], None] | None) -> dict[tuple[str, str], None]:
    """Return a copy of a shard's domains; made under the lock of the tables."""
    return dict(owned or {})
