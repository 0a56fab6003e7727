"""Logs in one process on one etcd, each with tables and client of its own; the counterpart of `coordinator.local_cluster`.

Rules: `coordinator#etcd-store`.
"""

from collections.abc import Callable

import structlog
from prometheus_client import CollectorRegistry

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.ids import SystemIds
from bigfleet.coordinator.etcd.client import EtcdClient
from bigfleet.coordinator.etcd.etcd_log import EtcdLog
from bigfleet.coordinator.etcd.settings import EtcdSettings, SnapshotPolicy
from bigfleet.coordinator.etcd.store import EtcdStore
from bigfleet.coordinator.metrics import COORDINATOR_METRICS
from bigfleet.obs.metrics import Metrics
from tests.support.coordinator.pairs import Pairs
from tests.support.etcd.members import EtcdMembers

PREFIX = "/test/fleet"


class EtcdNode:
    """One replica: its log, tables and metrics; a new one for every start."""

    def __init__(
        self, log: EtcdLog, store: EtcdStore, state_machine: Pairs, registry: CollectorRegistry
    ) -> None:
        self.log, self.store, self.state_machine, self.registry = log, store, state_machine, registry

    def counted(self, name: str, **labels: str) -> float:
        """Return one series of this node."""
        return self.registry.get_sample_value(f"bigfleet_coordinator_{name}", labels) or 0.0


class EtcdNodes:
    """Replicas by ordinal."""

    def __init__(
        self,
        members: EtcdMembers,
        *,
        replicas: int = 3,
        snapshots: SnapshotPolicy | None = None,
        lease_s: int = 3,
        client: Callable[[int], EtcdClient] | None = None,
    ) -> None:
        self.members, self.replicas = members, replicas
        self._snapshots, self._lease_s = snapshots or SnapshotPolicy(), lease_s
        self._client = client or (lambda ordinal: members.client(first=ordinal))
        self.nodes: dict[int, EtcdNode] = {}

    async def start(self, ordinal: int, *, bootstrap: bool = True) -> EtcdNode:
        """Start a replica."""
        registry = CollectorRegistry()
        metrics = Metrics(COORDINATOR_METRICS, registry, version="test", commit="test")
        state_machine = Pairs()
        store = EtcdStore(self._client(ordinal), PREFIX)
        settings = EtcdSettings(
            f"coordinator-{ordinal}", f"grpc-{ordinal}", bootstrap, self._lease_s, self._snapshots
        )
        log = EtcdLog(
            settings,
            store,
            clock=SystemClock(),
            ids=SystemIds(),
            state_machine=state_machine,
            metrics=metrics,
            log=structlog.get_logger(),
        )
        await log.start()
        self.nodes[ordinal] = node = EtcdNode(log, store, state_machine, registry)
        return node

    async def stop(self, ordinal: int) -> None:
        """Stop a replica gracefully."""
        await self.nodes.pop(ordinal).log.stop()

    async def stop_all(self) -> None:
        """Stop all replicas."""
        for ordinal in list(self.nodes):
            await self.stop(ordinal)

    def serving(self) -> EtcdNode | None:
        """Return the replica that serves."""
        return next((node for node in self.nodes.values() if node.log.serving() is not None), None)
