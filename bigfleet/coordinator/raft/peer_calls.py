"""The gRPC calls of a replica to its peers: probe and join.

Why: without a Raft link or a leader, the trailing metadata of any answer is all that a replica knows of its peers.
Must never: keep a connection, because a peer may have moved.
Rules: `coordinator#startup-decision`, `coordinator#learner`, `coordinator#serving`.
"""

from typing import Any, Protocol

from bigfleet.aio.net import Net, RpcError
from bigfleet.aio.service import UnaryMethod
from bigfleet.coordinator.log import Membership, RaftState
from bigfleet.coordinator.raft.membership import MemberAddress
from bigfleet.coordinator.raft.startup import PeerAnswer
from bigfleet.transport.coordinator import JOIN_RAFT_CLUSTER, LIST_SHARDS, RAFT_STATE, facts_of
from bigfleet.v1alpha1 import coordinator_pb2 as pb

PROBE_S = 3.0
JOIN_S = 10.0


class PeerCalls(Protocol):
    """Calls to one peer; they return None if it does not answer."""

    async def probe(self, grpc_address: str) -> PeerAnswer | None:
        """Ask a peer for its state."""

    async def join(self, grpc_address: str, me: MemberAddress) -> PeerAnswer | None:
        """Ask a peer to admit this replica; the answer includes the peer's state."""


class GrpcPeerCalls:
    """The calls over the network of the process."""

    def __init__(self, net: Net) -> None:
        self._net = net

    async def probe(self, grpc_address: str) -> PeerAnswer | None:
        return await self._ask(grpc_address, LIST_SHARDS, pb.ListShardsRequest(), PROBE_S, admits=False)

    async def join(self, grpc_address: str, me: MemberAddress) -> PeerAnswer | None:
        request = pb.JoinRaftClusterRequest(node_id=me.node_id, raft_address=me.raft_address)
        return await self._ask(grpc_address, JOIN_RAFT_CLUSTER, request, JOIN_S, admits=True)

    async def _ask(
        self,
        grpc_address: str,
        method: UnaryMethod[Any, Any],  # Any: the messages do not matter here
        request: object,
        timeout_s: float,
        *,
        admits: bool,
    ) -> PeerAnswer | None:
        channel = self._net.dial(grpc_address)
        try:
            reply = await channel.unary(method, request, timeout_s=timeout_s)
        except RpcError as error:
            trailing, accepted = error.trailing, False
        else:
            trailing, accepted = reply.trailing, admits
        finally:
            await channel.close()
        # A proxy or a reused port may answer too; only a coordinator reports a Raft state.
        if not any(key == RAFT_STATE for key, _ in trailing):
            return None
        facts = facts_of(trailing)
        return PeerAnswer(
            cluster_id=facts.cluster_id,
            membership=facts.membership or Membership.UNFORMED,
            state=facts.raft_state or RaftState.UNFORMED,
            last_index=facts.last_index,
            command_level=facts.command_level,
            accepted=accepted,
        )
