"""The sessions of all connected operators, at most one per cluster.

Must never: send a machine's state to a cluster that neither has the machine nor just had it.
Rules: `shard#node-state`, `shard#session-opening`, `shard#session-closing`, `shard#resync`, `shard#outbox`.
"""

from collections.abc import Callable, Iterable

from bigfleet.aio.net import Code, RpcRefusedError
from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import Machine
from bigfleet.shard.context import ShardContext
from bigfleet.shard.session.operator_session import OperatorSession
from bigfleet.wire import session_frames

_SLICE = 200  # node states queued between two turns of the event loop


def _ignore(_cluster: str) -> None:
    """Do nothing."""


class Sessions:
    """Sessions by cluster."""

    def __init__(self, context: ShardContext, acknowledge: Callable[[str, str], bytes]) -> None:
        """`acknowledge` makes an acknowledgement of a word and a problem, with the shard's epoch and coordinator's term."""
        self._guarded, self._clock = context.guarded, context.clock
        self._metrics, self._log = context.metrics, context.log
        self._acknowledge = acknowledge
        self._open: dict[str, OperatorSession] = {}
        self._left: set[str] = set()
        self.on_installed: Callable[[str], None] = _ignore
        """Called with the cluster of each new session."""
        self.settled = False
        """Whether the provider was listed in full once, so that a missing machine is known to be missing."""

    def __len__(self) -> int:
        return len(self._open)

    def acknowledge(self, echo: str) -> bytes:
        """Make an acknowledgement that echoes a word."""
        return self._acknowledge(echo, "")

    def refuse_rollup(self, problem: str) -> bytes:
        """Make the frame that tells an operator why its roll-up was refused."""
        return self._acknowledge(session_frames.REFUSED_ECHO, problem)

    def get(self, cluster: str) -> OperatorSession | None:
        """The session of a cluster, if its operator is connected."""
        return self._open.get(cluster)

    @property
    def clusters(self) -> frozenset[str]:
        return frozenset(self._open)

    def take_left(self) -> set[str]:
        """Clusters whose session ended or was replaced since the last call."""
        left, self._left = self._left, set()
        return left

    def install(self, session: OperatorSession) -> None:
        """Make it the session of its cluster, and end the previous one."""
        before = self._open.get(session.cluster)
        self._open[session.cluster] = session
        self._metrics.counter(
            "bigfleet_shard_session_lifecycle_total", event="installed" if before is None else "replaced"
        ).inc()
        self._metrics.gauge("bigfleet_shard_active_sessions").set(len(self._open))
        if before is not None:
            self._left.add(session.cluster)
            before.end(RpcRefusedError(Code.ABORTED, "a newer session of this cluster took over"))
        self.on_installed(session.cluster)

    def remove(self, session: OperatorSession) -> None:
        """Remove a session whose stream ended; a newer session of the cluster stays."""
        if self._open.get(session.cluster) is session:
            del self._open[session.cluster]
            self._left.add(session.cluster)
            self._metrics.counter("bigfleet_shard_session_lifecycle_total", event="removed").inc()
            self._metrics.gauge("bigfleet_shard_active_sessions").set(len(self._open))

    def send_node_state(self, machine: Machine, previous_cluster: str = "") -> None:
        """Queue a machine's state for the operator of its cluster or, if it has none, of the cluster it just left."""
        session = self._open.get(machine.cluster or previous_cluster)
        if session is not None:
            session.send_node_state(machine)

    async def resync(self, session: OperatorSession) -> None:
        """Queue the states of all machines of an operator and an end mark; does nothing before the first full listing."""
        if not self.settled or not session.resync_due:
            return
        session.resync_due = False
        await self._guarded.available()
        inventory = self._guarded.inventory
        ids = inventory.bound_to(session.cluster)
        for start in range(0, len(ids), _SLICE):
            if not session.is_open:
                return
            await self._guarded.available()
            for machine in _still_bound(inventory, ids[start : start + _SLICE], session.cluster):
                session.send_node_state(machine)
            await self._clock.sleep(0)
        session.send(self.acknowledge(session_frames.RESYNC_ECHO))

    async def resync_all(self) -> None:
        """Resync the operators that connected before the first full listing."""
        self.settled = True
        for session in list(self._open.values()):
            await self.resync(session)

    def give_up_waiting(self, why: str) -> None:
        """Fail every request that waits for a blob."""
        for session in self._open.values():
            session.give_up_waiting(why)

    def end_all(self, why: RpcRefusedError) -> None:
        """End every session."""
        for session in list(self._open.values()):
            session.end(why)


def _still_bound(inventory: Inventory, ids: Iterable[str], cluster: str) -> list[Machine]:
    known = [machine_id for machine_id in ids if machine_id in inventory]
    return [machine for machine in map(inventory.get, known) if machine.cluster == cluster]
