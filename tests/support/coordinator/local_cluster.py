"""Three logs in one process over real sockets and files; their gRPC calls are direct function calls.

Why: tests formation and the Raft port without the program around them.
Rules: `coordinator#membership`, `coordinator#raft-port`, `coordinator#failures`.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.ids import SystemIds
from bigfleet.aio.rng import SystemRng
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.coordinator.log import LogError
from bigfleet.coordinator.metrics import COORDINATOR_METRICS
from bigfleet.coordinator.raft.certificates import RaftTls
from bigfleet.coordinator.raft.membership import MemberAddress, RaftMembers
from bigfleet.coordinator.raft.raft_log import RaftLog, RaftSettings
from bigfleet.coordinator.raft.relays import Resolve, as_named, free_port
from bigfleet.coordinator.raft.startup import PeerAnswer
from bigfleet.obs.metrics import Metrics
from bigfleet.transport.address import ListenAddress
from tests.support.coordinator.pairs import Pairs

SECRET = b"0123456789abcdef0123456789abcdef"


class Node:
    """One member: its log, its tables, its metrics; a new log for every start."""

    def __init__(
        self, log: RaftLog, state_machine: Pairs, metrics: Metrics, registry: CollectorRegistry
    ) -> None:
        self.log, self.state_machine, self.metrics, self.registry = log, state_machine, metrics, registry

    def counted(self, name: str, **labels: str) -> float:
        """Return one series of this node."""
        return self.registry.get_sample_value(f"bigfleet_coordinator_{name}", labels) or 0.0


class LocalCluster:
    """Up to three members by ordinal, each in a directory of its own."""

    def __init__(
        self,
        directory: Path,
        *,
        replicas: int = 3,
        tls: Callable[[int], RaftTls | None] = lambda _ordinal: None,
        secrets: dict[int, bytes] | None = None,
        resolve: Resolve = as_named,
        host: str = "127.0.0.1",
    ) -> None:
        self.directory, self._tls, self._secrets, self._resolve = directory, tls, secrets or {}, resolve
        self.members = tuple(
            MemberAddress(f"coordinator-{ordinal}", f"{host}:{free_port()}", f"grpc-{ordinal}")
            for ordinal in range(replicas)
        )
        self._ports = [int(member.raft_address.rpartition(":")[2]) for member in self.members]
        self.nodes: dict[int, Node] = {}
        self.unreachable: set[int] = set()
        """Ordinals that answer no call of their peers."""

    def data_dir(self, ordinal: int) -> Path:
        return self.directory / f"data-{ordinal}"

    async def start(
        self,
        ordinal: int,
        *,
        bootstrap: bool = True,
        without_peers: bool = False,
        on_step: Callable[[str], object] = lambda _step: None,
    ) -> Node:
        """Start a member; raises the error with which the program would end."""
        registry = CollectorRegistry()
        metrics = Metrics(COORDINATOR_METRICS, registry, version="test", commit="test")
        state_machine = Pairs()
        me = self.members[ordinal]
        settings = RaftSettings(
            members=RaftMembers(self.members, me),
            data_dir=str(self.data_dir(ordinal)),
            bind=ListenAddress("127.0.0.1", self._ports[ordinal]),
            bootstrap=bootstrap,
            bootstrap_without_peers=without_peers,
            secret=self._secrets.get(ordinal, SECRET) if len(self.members) > 1 else b"",
        )
        log = RaftLog(
            settings,
            clock=SystemClock(),
            disk=SystemDisk(),
            ids=SystemIds(),
            rng=SystemRng(),
            state_machine=state_machine,
            calls=_DirectCalls(self),
            metrics=metrics,
            log=structlog.get_logger(),
            tls=self._tls(ordinal),
            resolve=self._resolve,
            on_step=on_step,
        )
        await log.start()
        self.nodes[ordinal] = node = Node(log, state_machine, metrics, registry)
        return node

    def move(self, ordinal: int) -> int:
        """Give a member another port from its next start on, under the same address; return the port."""
        self._ports[ordinal] = free_port()
        return self._ports[ordinal]

    async def stop(self, ordinal: int) -> None:
        """Stop a member gracefully."""
        await self.nodes.pop(ordinal).log.stop()

    async def stop_all(self) -> None:
        """Stop all running members."""
        for ordinal in list(self.nodes):
            await self.stop(ordinal)

    def serving(self) -> Node | None:
        """Return the member that serves."""
        return next((node for node in self.nodes.values() if node.log.status().serving is not None), None)


class _DirectCalls:
    """Peer calls, answered by the other logs in this process."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    async def probe(self, grpc_address: str) -> PeerAnswer | None:
        node = self._node(grpc_address)
        return None if node is None else _answer(node)

    async def join(self, grpc_address: str, me: MemberAddress) -> PeerAnswer | None:
        node = self._node(grpc_address)
        if node is None:
            return None
        accepted = False
        with suppress(LogError):
            await node.log.admit(me.node_id, me.raft_address)
            accepted = True
        return _answer(node, accepted=accepted)

    def _node(self, grpc_address: str) -> Node | None:
        ordinal = int(grpc_address.rpartition("-")[2])
        return None if ordinal in self._cluster.unreachable else self._cluster.nodes.get(ordinal)


def _answer(node: Node, *, accepted: bool = False) -> PeerAnswer:
    status = node.log.status()
    return PeerAnswer(
        cluster_id=status.cluster_id,
        membership=status.membership,
        state=status.state,
        last_index=status.last_index,
        accepted=accepted,
    )
